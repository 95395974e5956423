//! What ranks write, line by line, with the rank before each.

use std::io::{self, BufRead, BufReader, PipeReader, Read};
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Most bytes of a line that are kept together.
const MOST_LINE_BYTES: u64 = 64 << 10;

/// How long a pipe may be empty when all ranks have ended: something may have taken its other end to a group of its own.
const LAST_OUTPUT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// What a rank writes, until nobody can write any more; or, when all ranks have ended, until nothing comes for a while.
pub struct Output<R> {
    pub from: R,
    /// It ends when all ranks have.
    pub ranks: Arc<PipeReader>,
}

impl<R: Read + AsFd> Read for Output<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut watched = [PollFd::new(&self.from, PollFlags::IN), PollFd::new(&*self.ranks, PollFlags::IN)];
        wait(&mut watched, None)?;
        let comes = !watched[0].revents().is_empty() || wait(&mut watched[..1], Some(&LAST_OUTPUT))?;
        if comes { self.from.read(buffer) } else { Ok(0) }
    }
}

/// Whether there is something, in this time.
fn wait(watched: &mut [PollFd<'_>], limit: Option<&Timespec>) -> io::Result<bool> {
    loop {
        match poll(watched, limit) {
            Err(Errno::INTR) => {}
            polled => return Ok(polled? > 0),
        }
    }
}

/// Copies `from`, which belongs to `rank`, to its end. `line` gets whole lines. The first error of a line's is given at the
/// end: what a rank writes is read all the same, for it would wait.
pub fn copy(rank: u32, from: impl Read, mut line: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut from = BufReader::new(from);
    let prefix = format!("[{rank}] ").into_bytes();
    let mut text = prefix.clone();
    let mut written = Ok(());
    let mut cut = false;
    loop {
        let read = from.by_ref().take(MOST_LINE_BYTES).read_until(b'\n', &mut text);
        // A pipe that breaks has ended.
        if text.len() == prefix.len() {
            return written;
        }
        // The end of a line that was just as long as is kept together.
        let ended = std::mem::replace(&mut cut, text.last() != Some(&b'\n')) && text[prefix.len()..] == *b"\n";
        if cut {
            text.push(b'\n');
        }
        if !ended {
            written = written.and(line(&text));
        }
        text.truncate(prefix.len());
        if read.is_err() {
            return written;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(text: &[u8]) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        let line = |line: &[u8]| {
            lines.push(line.to_vec());
            Ok(())
        };
        copy(3, text, line).expect("each was written");
        lines
    }

    #[test]
    fn each_line_says_whose_it_is() {
        assert_eq!(copied(b"one\n\ntwo"), [&b"[3] one\n"[..], b"[3] \n", b"[3] two\n"]);
        assert_eq!(copied(b"\xff\0\n"), [b"[3] \xff\0\n"]);
        assert!(copied(b"").is_empty());
    }

    #[test]
    fn a_long_line_is_cut_and_has_one_end() {
        let lengths = |text: &[u8]| copied(text).iter().map(Vec::len).collect::<Vec<_>>();
        let long = vec![b'x'; 100_000];
        assert_eq!(lengths(&long), [65536 + 5, 100_000 - 65536 + 5]);
        for (bytes, wanted) in [(65535, vec![65540]), (65536, vec![65541]), (65537, vec![65541, 6])] {
            let line = [&long[..bytes], b"\n"].concat();
            assert_eq!(lengths(&line), wanted);
            // What is empty by itself stays.
            assert_eq!(lengths(&[&line[..], b"\n"].concat()), [&wanted[..], &[5]].concat());
        }
    }

    #[test]
    fn a_line_that_cannot_be_written_keeps_no_rank_waiting() {
        let mut lines = 0;
        let failed = copy(0, &b"a\nb\nc\n"[..], |_| {
            lines += 1;
            if lines == 2 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        });
        assert_eq!((failed.map_err(|error| error.kind()), lines), (Err(io::ErrorKind::StorageFull), 3));
    }
}
