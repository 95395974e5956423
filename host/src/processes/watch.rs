//! Sees it when a process of another rank ends, however it ends, and tells this process's ranks: whoever waits for that one need not
//! wait for a deadline.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::Meeting;
use crate::error::{Error, Result};
use crate::stop::Boards;

/// A thread that sleeps until a process ends. It ends when this is dropped.
pub(crate) struct Watch {
    close: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// Which process this is: a number may be given to another one later, and means nothing in another namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    id: u32,
    /// When it began, in the host's ticks.
    began: u64,
    namespace: u64,
}

impl Process {
    /// This one, if `/proc` says so.
    fn own() -> Option<Process> {
        let began = began("self").ok()??;
        Some(Process { id: std::process::id(), began, namespace: fs::metadata("/proc/self/ns/pid").ok()?.ino() })
    }

    fn encode(self) -> Vec<u8> {
        [self.id.into(), self.began, self.namespace].map(u64::to_le_bytes).concat()
    }

    fn decode(word: &[u8]) -> Option<Process> {
        let words: [[u8; 8]; 3] = word.as_chunks::<8>().0.try_into().ok()?;
        let [id, began, namespace] = words.map(u64::from_le_bytes);
        (word.len() == 24).then_some(Process { id: id.try_into().ok()?, began, namespace })
    }

    /// What tells of its end; `None`: it has ended.
    fn open(self) -> rustix::io::Result<Option<OwnedFd>> {
        let Some(id) = i32::try_from(self.id).ok().and_then(Pid::from_raw) else { return Err(Errno::INVAL) };
        match pidfd_open(id, PidfdFlags::empty()) {
            // Looked at after it was opened: so it is this one that the descriptor is of.
            Ok(opened) => match began(&self.id.to_string()) {
                Ok(began) => Ok((began == Some(self.began)).then_some(opened)),
                // It cannot be looked at, which says nothing of it.
                Err(_) => Err(Errno::IO),
            },
            Err(Errno::SRCH) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// When a process began: the 22nd field of its `stat`, counted from behind its name, which may hold anything. `None`: there is no such
/// process.
fn began(process: &str) -> std::io::Result<Option<u64>> {
    let stat = match fs::read_to_string(format!("/proc/{process}/stat")) {
        Ok(stat) => stat,
        Err(error)
            if error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let began = stat.rsplit_once(')').and_then(|(_, fields)| fields.split_whitespace().nth(19)?.parse().ok());
    began.map(Some).ok_or(ErrorKind::InvalidData.into())
}

impl Watch {
    /// Watches the processes of the other ranks of `meeting`, as far as this one can see them, and tells `boards` of those that end.
    /// Whether it does is for the caller to tell the others: the inner result.
    ///
    /// # Errors
    /// [`Error::RankFailed`], [`Error::Rendezvous`]; inside [`Error::Host`].
    pub(crate) fn new(meeting: &Meeting<'_>, boards: Arc<dyn Boards>) -> Result<Result<Watch>> {
        let own = Process::own();
        let ((), words) = meeting.step(Ok(()), |()| own.map_or(Vec::new(), Process::encode))?;
        let mut watched = Vec::new();
        for (rank, word) in (0..).zip(&words).filter(|&(rank, _)| rank != meeting.rank()) {
            match Process::decode(word) {
                // Of ranks that are threads of this process, and of those that it cannot see, a deadline has to tell.
                Some(process) if Some(process) == own => {}
                Some(process) if own.is_some_and(|own| process.namespace == own.namespace) => match process.open() {
                    Ok(Some(opened)) => watched.push((rank, opened)),
                    Ok(None) => boards.gone(rank),
                    Err(error) => tracing::debug!(rank, %error, "the end of a rank's process will not be seen"),
                },
                Some(_) | None => tracing::debug!(rank, "the end of a rank's process will not be seen"),
            }
        }
        Ok(Watch::over(watched, boards))
    }

    fn over(watched: Vec<(u32, OwnedFd)>, boards: Arc<dyn Boards>) -> Result<Watch> {
        let failed = |source| Error::Host { what: "watching the processes of other ranks", source };
        let close = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let close = Arc::new(close);
        if watched.is_empty() {
            return Ok(Watch { close, thread: None });
        }
        let theirs = Arc::clone(&close);
        let thread = std::thread::Builder::new()
            .name("allfold watch".to_owned())
            .spawn(move || watch(&theirs, watched, &*boards))
            .map_err(failed)?;
        Ok(Watch { close, thread: Some(thread) })
    }
}

fn watch(close: &OwnedFd, mut watched: Vec<(u32, OwnedFd)>, boards: &dyn Boards) {
    while !watched.is_empty() {
        let all = watched.iter().map(|(_, process)| process.as_fd()).chain([close.as_fd()]);
        let mut all: Vec<_> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        match poll(&mut all, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                tracing::warn!(%error, "the ends of other ranks' processes are not seen any more");
                return;
            }
        }
        let ready: Vec<_> = all.iter().map(|fd| !fd.revents().is_empty()).collect();
        if ready.last() == Some(&true) {
            return;
        }
        let mut ended = ready.into_iter();
        watched.retain(|&(rank, _)| {
            let ended = ended.next() == Some(true);
            if ended {
                tracing::warn!(rank, "the process of a rank has ended");
                boards.gone(rank);
            }
            !ended
        });
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // A counter that cannot be full.
        let _ = rustix::io::write(&*self.close, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::{Duration, Instant};

    use allfold_kernels::protocol::status::Stop;

    use super::*;

    /// The sum of all ranks that are gone, and one for each.
    #[derive(Default)]
    struct Told(AtomicU32);

    impl Boards for Told {
        fn stop(&self, _: Stop) {}
        fn gone(&self, rank: u32) {
            self.0.fetch_add(rank + 1, Ordering::Relaxed);
        }
        fn leave(&self) {}
    }

    #[test]
    fn a_process_that_is_killed_is_seen_and_one_that_lives_is_not() {
        let mut sleepers =
            [0; 2].map(|_| Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().expect("it is there"));
        let own = Process::own().expect("there is /proc");
        let start = |id: u32| began(&id.to_string()).expect("there is /proc").expect("it runs");
        let of = |id: u32| Process { id, began: start(id), ..own };
        let watched = [(3, of(sleepers[0].id())), (6, of(sleepers[1].id()))];
        let watched = watched.map(|(rank, process)| (rank, process.open().expect("it can be seen").expect("it runs")));
        let told = Arc::new(Told::default());
        let watch = Watch::over(watched.into(), Arc::clone(&told) as Arc<dyn Boards>).expect("a thread");
        assert_eq!(told.0.load(Ordering::Relaxed), 0);
        sleepers[1].kill().expect("it runs");
        let begun = Instant::now();
        while told.0.load(Ordering::Relaxed) == 0 && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(told.0.load(Ordering::Relaxed), 7);
        // It ends though one process goes on.
        drop(watch);
        for mut sleeper in sleepers {
            sleeper.kill().expect("it is not waited for yet");
            sleeper.wait().expect("it has ended");
            assert!(matches!(of_ended(own, sleeper.id()).open(), Ok(None)));
        }
    }

    /// A process that is not any more, or whose number another one has.
    fn of_ended(own: Process, id: u32) -> Process {
        Process { id, began: u64::MAX, ..own }
    }

    #[test]
    fn what_a_process_says_of_itself_is_heard_and_anything_else_is_refused() {
        let own = Process::own().expect("there is /proc");
        assert_eq!(Process::decode(&own.encode()), Some(own));
        for length in (0..24).chain([25, 32]) {
            assert_eq!(Process::decode(&vec![7; length]), None, "{length} bytes");
        }
    }
}
