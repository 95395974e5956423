//! The kernels of allfold under the model checker loom: which barrier does each all-reduce need.
//!
//! The source in `allfold_kernels::protocol` runs unchanged: [`machine::LoomMachine`] is one more `Machine`.
//!
//! | file | what |
//! |---|---|
//! | [`program`] | what is run: calls, shape, what the caller does with its buffers |
//! | [`machine`], [`memory`], [`landing`], [`block`] | one GPU thread, the memory of all ranks, `bar.sync`, as loom sees them |
//! | [`stream`] | what a rank does: the caller's work and kernels, in order |
//! | [`assumptions`] | what may be assumed of the hardware, by name |
//! | [`mutants`] | a machine with one fault |
//! | [`trace`], [`story`] | the steps of the execution that failed, and how they are told |
//! | [`explore`], [`search`] | runs loom; how deep |
//! | [`cell`] | one question and its verdict |
//! | [`matrix`], [`sequences`], [`faults`] | what is asked: all cells; rows of unlike calls and early launches; planted faults |
//! | [`pushes`] | what is asked of pushes, one-pass and exchange, and their planted faults |
//! | [`report`], [`workers`] | all questions and their answers, on several processors |
//! | [`page`] | `docs/barriers.md` |

pub mod assumptions;
pub mod block;
pub mod cell;
pub mod explore;
pub mod faults;
pub mod integers;
pub mod landing;
pub mod machine;
pub mod matrix;
pub mod memory;
pub mod mutants;
pub mod page;
pub mod program;
pub mod pushes;
pub mod report;
pub mod search;
pub mod sequences;
pub mod story;
pub mod stream;
pub mod trace;
pub mod workers;
