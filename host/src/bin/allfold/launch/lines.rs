//! What ranks write, line by line, with the rank before each.

use std::io::{BufRead, BufReader, Read, Write};

/// Most bytes of a line that are kept together.
const MOST_LINE_BYTES: u64 = 64 << 10;

/// Copies `from`, which belongs to `rank`, to its end. `line` gets whole lines.
pub fn copy(rank: u32, from: impl Read, mut line: impl FnMut(&[u8])) {
    let mut from = BufReader::new(from);
    let prefix = format!("[{rank}] ").into_bytes();
    let mut text = prefix.clone();
    loop {
        let read = from.by_ref().take(MOST_LINE_BYTES).read_until(b'\n', &mut text);
        // A pipe that breaks has ended.
        if text.len() == prefix.len() {
            return;
        }
        if text.last() != Some(&b'\n') {
            text.push(b'\n');
        }
        line(&text);
        text.truncate(prefix.len());
        if read.is_err() {
            return;
        }
    }
}

/// Writes a whole line at once. Nobody may read it any more: the ranks go on.
pub fn write(mut to: impl Write, line: &[u8]) {
    let _ = to.write_all(line).and_then(|()| to.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(text: &[u8]) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        copy(3, text, |line| lines.push(line.to_vec()));
        lines
    }

    #[test]
    fn each_line_says_whose_it_is() {
        assert_eq!(copied(b"one\n\ntwo"), [&b"[3] one\n"[..], b"[3] \n", b"[3] two\n"]);
        assert_eq!(copied(b"\xff\0\n"), [b"[3] \xff\0\n"]);
        assert!(copied(b"").is_empty());
        let long = copied(&[b'x'; 100_000]);
        assert_eq!(long.iter().map(Vec::len).collect::<Vec<_>>(), [65536 + 5, 100_000 - 65536 + 5]);
    }
}
