//! One suite of properties, run by every machine: CPU threads and processes anywhere, GPUs where they are.
//!
//! | file | what |
//! |---|---|
//! | [`machine`] | what a property may do with ranks, for CPU threads, processes and GPUs |
//! | [`numbers`], [`data`], [`oracle`] | elements as bits, inputs, and what their sums have to be |
//! | [`call`], [`batch`] | a call as it is asked for; calls back to back, and the check of every byte that they wrote |
//! | [`suite`] | what a property is, and how a list of them is run |
//! | [`properties`] | the properties |
//! | [`faults`] | what comes of faults of ranks and of drivers, on the CPU and on GPUs |
//! | [`meet`] | ranks that are processes, which a test or a program starts of itself |
//! | [`soft`] | GPUs of software, for whoever has none |
//!
//! `tests/` runs them on CPU ranks, in one process and in several, with further tests of pure functions; the program `suite` runs them on either, also on a
//! machine without Rust.

pub mod batch;
pub mod call;
pub mod counting;
pub mod data;
pub mod faults;
pub mod machine;
pub mod meet;
pub mod numbers;
pub mod oracle;
pub mod properties;
pub mod soft;
pub mod suite;
