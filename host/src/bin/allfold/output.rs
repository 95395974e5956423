//! Where results go: files, or standard output for `-`; and what is said beside them. Where standard output or standard error
//! is broken nothing panics.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// Whether that is standard output.
pub fn is_stdout(path: &Option<PathBuf>) -> bool {
    path.as_deref() == Some(Path::new("-"))
}

/// Writes what `text` makes, if somebody asked for it.
pub fn write(path: &Option<PathBuf>, text: impl FnOnce() -> Result<String>) -> Result<()> {
    match path.as_deref() {
        None => {}
        Some(path) if path == Path::new("-") => print(&text()?)?,
        Some(path) => std::fs::write(path, text()?).with_context(|| format!("writing {}", path.display()))?,
    }
    Ok(())
}

/// Prints a result.
pub fn print(text: &str) -> Result<()> {
    write_all(io::stdout().lock(), text.as_bytes()).context("writing to standard output")
}

/// Says something beside the results. Where that cannot be there is nobody to tell.
pub fn say(text: &str) {
    let _ = write_all(io::stderr().lock(), text.as_bytes());
}

/// Writes all of `bytes`, however long that takes, and nothing more where nobody reads.
pub fn write_all(to: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(&to, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::PIPE) => return Ok(()),
            Err(Errno::INTR) => {}
            // Whoever shares it with us wants writes not to wait.
            Err(Errno::AGAIN) => drop(poll(&mut [PollFd::new(&to, PollFlags::OUT)], None)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::time::Duration;

    use super::*;

    #[test]
    fn all_is_written_or_it_is_said() {
        let (mut from, to) = io::pipe().expect("a pipe");
        rustix::io::ioctl_fionbio(&to, true).expect("a pipe can be made not to wait");
        // More than a pipe holds.
        let text = vec![b'x'; 1 << 20];
        let reader = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            let mut read = Vec::new();
            from.read_to_end(&mut read).map(|_| read)
        });
        write_all(&to, &text).expect("it waits for the reader");
        drop(to);
        assert!(reader.join().expect("whole").expect("a pipe") == text);
        let (from, to) = io::pipe().expect("a pipe");
        drop(from);
        write_all(&to, &text).expect("nobody reads");
        let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
        let error = write_all(&full, &text).expect_err("it is full");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
