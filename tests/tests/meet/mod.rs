//! Ranks that are processes, and what tests of them have in common: `allfold_tests::meet`, attempts to connect, and what a process
//! holds.

#![allow(dead_code, unused_imports, reason = "each test uses a part of it")]

pub use allfold_tests::meet::{
    Case, Folder, Guest, is_meeting, on, on_all, on_all_but, on_all_with_caches, starts_ranks, tell,
};

pub mod attempt;
pub mod held;
