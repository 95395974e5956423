//! Ranks that are processes, and what tests of them have in common: `allfold_tests::meet`, attempts to connect, and what a process
//! holds.

#![allow(dead_code, unused_imports, reason = "each test uses a part of it")]

pub use allfold_tests::meet::{Case, Guest, is_meeting, on, on_all, on_all_but, tell};

pub mod attempt;
pub mod held;
