//! The PTX memory consistency model as a checker of litmus-sized programs.
//!
//! | module | what |
//! |---|---|
//! | [`event`], [`text`] | operations of a thread: loads, stores, atomics, fences, `bar.sync`; and how they print |
//! | [`program`] | threads with places (device, kernel, block, thread), kernels in stream order |
//! | [`relation`] | relations over the events of an execution |
//! | [`execution`] | candidate executions: reads-from, coherence order, Fence-SC order, and what follows |
//! | [`axioms`] | causality, and the six axioms |
//! | [`enumerate`] | every candidate execution of a program |
//! | [`verdict`] | is an outcome forbidden, allowed, or seen only where there is a data race |
//! | [`assumption`] | what one may assume of the hardware beyond the model, by name |
//! | [`case`] | a question and the answer it must get |
//! | [`mutate`] | each operation weakened, one at a time |
//! | [`litmus`] | published tests |
//! | [`protocol`] | the cores of our barriers and protocols |
//! | [`kernels`] | the kernels themselves, traced |
//! | [`report`] | the tables |

pub mod assumption;
pub mod axioms;
pub mod case;
pub mod enumerate;
pub mod event;
pub mod execution;
pub mod kernels;
pub mod litmus;
pub mod mutate;
pub mod program;
pub mod protocol;
pub mod relation;
pub mod report;
pub mod text;
pub mod verdict;
