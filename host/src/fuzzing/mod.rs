//! What is asked of everything that reads bytes which others wrote: for each such reader a function that takes any bytes, and panics
//! where the reader breaks a promise. Uses the readers, each by a file `fuzzing.rs` beside it.
//!
//! No part of the API: it is there for tests, and with `cfg(fuzzing)`, which cargo-fuzz sets. `cargo xtask fuzz` runs it in `tests/fuzz/`;
//! `cargo test` asks the same of the seeds and of what they become when something is wrong with them.

use std::fs;
use std::io;
use std::path::Path;

use crate::{communicator, cuda, processes, reach, rendezvous, self_test, tuning};

#[cfg(test)]
mod random;
mod scripted;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use random::Random;
pub(crate) use scripted::{Scripted, script};

/// A reader, or several that get the same bytes.
#[derive(Debug)]
pub struct Target {
    /// Its name: that of its program in `tests/fuzz/`.
    pub name: &'static str,
    /// Gives it these bytes, and panics where it breaks a promise.
    pub check: fn(&[u8]),
    /// Bytes that lead far into it.
    seeds: fn() -> Vec<Vec<u8>>,
}

/// All there are.
pub static TARGETS: [Target; 8] = [
    Target { name: "frames", check: rendezvous::fuzzing::frames, seeds: rendezvous::fuzzing::frame_seeds },
    Target { name: "handshake", check: rendezvous::fuzzing::handshake, seeds: rendezvous::fuzzing::handshake_seeds },
    Target { name: "environment", check: rendezvous::fuzzing::environment, seeds: rendezvous::fuzzing::environments },
    Target { name: "words", check: words, seeds: word_seeds },
    Target { name: "meetings", check: processes::fuzzing::meetings, seeds: processes::fuzzing::meeting_seeds },
    Target { name: "reach", check: reach::fuzzing::reached, seeds: reach::fuzzing::seeds },
    Target { name: "tuning", check: tuning::fuzzing::table, seeds: tuning::fuzzing::tables },
    Target { name: "ptx", check: cuda::fuzzing::ptx, seeds: cuda::fuzzing::ptx_seeds },
];

/// Gives `bytes` to the target `name`; nothing happens where there is none.
pub fn check(name: &str, bytes: &[u8]) {
    TARGETS.iter().filter(|target| target.name == name).for_each(|target| (target.check)(bytes));
}

/// Writes the seeds of the target `name` into `folder`, each a file.
///
/// # Errors
/// When a file cannot be written.
pub fn write_seeds(name: &str, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let seeds = TARGETS.iter().filter(|target| target.name == name).flat_map(|target| (target.seeds)());
    seeds.enumerate().try_for_each(|(number, seed)| fs::write(folder.join(format!("seed-{number}")), seed))
}

/// What is read is written as the same bytes again: a reader that takes nothing else than what its writer makes.
pub(crate) fn canonical<T>(bytes: &[u8], read: impl Fn(&[u8]) -> Option<T>, write: impl Fn(&T) -> Vec<u8>) {
    if let Some(value) = read(bytes) {
        assert_eq!(write(&value), bytes);
    }
}

/// Short words that ranks tell each other: tickets of a line, seats of a split, descriptors, GPUs, findings of a self-test and the file
/// of one that has passed; and the words that kernels leave.
fn words(bytes: &[u8]) {
    rendezvous::fuzzing::ticket(bytes);
    communicator::fuzzing::seat(bytes);
    processes::fuzzing::descriptors(bytes);
    cuda::fuzzing::gpu(bytes);
    self_test::fuzzing::finding(bytes);
    if let Some(word) = bytes.first_chunk() {
        let word = u64::from_le_bytes(*word);
        assert!(crate::Stop::decode(word).is_none_or(|stop| stop.encode() == word));
    }
}

fn word_seeds() -> Vec<Vec<u8>> {
    let stop = crate::Stop { block: 7, epoch_low: 9, ..crate::Stop::outside(crate::Why::TimedOut, crate::Rank(3)) };
    let mut seeds = vec![vec![7; 64], vec![9; 36], stop.encode().to_le_bytes().to_vec()];
    seeds.extend(communicator::fuzzing::seats());
    seeds.push(cuda::fuzzing::gpu_seed());
    seeds.extend(self_test::fuzzing::seeds());
    seeds
}
