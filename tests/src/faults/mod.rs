//! Faults of ranks: what others get when one is late, gone, killed, stopped, aborts, makes another call or calls elsewhere; on the CPU
//! and on GPUs, with ranks that are threads and processes. And what GPUs have beside: streams, other kernels, a driver whose calls fail.
//!
//! Of each fault comes a right result, or one typed error on every rank in time; and those who are left go on.
//!
//! | file | what |
//! |---|---|
//! | `kinds.rs` | the faults of a rank, and where in a run they befall it |
//! | `ground.rs`, `rank.rs` | what a rank runs on, its memory, and its calls |
//! | `cell.rs`, `judge.rs` | one fault, at one place of one run, and what it has to come to |
//! | `matrix.rs`, `draw.rs` | which cells there are, and what is drawn of each |
//! | `threads.rs`, `processes.rs`, `pairs.rs` | cells whose ranks are threads, processes of their own, and two processes that stay |
//! | `single.rs`, `one.rs`, `busy.rs` | cells of one communicator over all GPUs of a process, and kernels that keep those busy |
//! | `driver.rs`, `story.rs`, `together.rs` | a story in which one driver call fails, each in turn; told by one thread, and by a thread for each rank |
//! | `dealt.rs` | an order in which a part of them is spread over all |
//! | `report.rs`, `watchdog.rs` | what came of it, and an end to what does not end |
//! | `program.rs` | all of it as a program |

mod busy;
mod cell;
mod dealt;
mod draw;
mod driver;
mod ground;
mod judge;
mod kinds;
pub mod matrix;
mod one;
mod pairs;
pub mod processes;
mod program;
mod rank;
mod report;
mod single;
mod story;
pub mod threads;
mod together;
mod watchdog;

pub use cell::{Cell, Facts, KILLED, now};
pub use driver::{allocations, driver};
pub use ground::{Ground, RankMemory};
pub use kinds::{Fault, Phase};
pub use program::{Faults, Part};
pub use rank::{BYTES, Call, Rank};
pub use report::{Lines, Report};
pub use single::single;
pub use watchdog::Watchdog;
