//! The self-test: before a communicator is there, each rank shows each other one that what it does arrives. Uses calls of the
//! communicator itself, on small buffers whose sums say whose number is wrong. Knows no backend but by [`Bench`].
//!
//! | file | what |
//! |---|---|
//! | `run.rs` | the calls, each by all ranks or none |
//! | `pattern.rs` | the numbers that go in, and which sums come out |
//! | `finding.rs` | what one rank finds in one call, told to the others |
//! | `judge.rs` | which ordered pairs of ranks have failed, by what all found |
//! | `hint.rs` | what is known to be the cause of such failures |
//! | `passed.rs` | what has passed already, in this process and on this machine |
//!
//! The way of it:
//!
//! ```text
//! has it passed?    each rank says whether it knows; run unless all do
//! a call            of each algorithm that there is, within a time limit of its own
//!   findings        a stop and who is missing, or the output: told to all ranks by the rendezvous
//!   judge           the same on all ranks of the same findings      -> Error::SelfTest on every rank
//! reset             workspaces are as if no call had been
//! ```
//!
//! A rank's flag is a release store of its kernel into each peer's memory; its input, or its part of the sums, is read by each
//! peer, or pushed to it. So calls to which all ranks come prove every ordered pair in both ways.

mod finding;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod hint;
mod judge;
mod passed;
mod pattern;
mod run;
#[cfg(test)]
mod tests;

pub(crate) use finding::Finding;
pub(crate) use hint::On;
pub(crate) use passed::Subject;
pub(crate) use run::{Bench, Trial, calls, run};
