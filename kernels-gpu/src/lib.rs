//! The protocol of allfold and the kernels made from it: one source for PTX, CPU threads and the model checker.
//!
//! - [`protocol`] is portable: every kernel is a function generic over [`protocol::machine::Machine`], and names no
//!   pointer, atomic or instruction.
//! - `ptx` exists only for `nvptx64`: the machine that one GPU thread is, and the entry points.
//!
//! This file is the table of contents and holds the one target `cfg` of the workspace.

#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch, stdarch_nvptx))]

pub mod protocol;

#[cfg(target_arch = "nvptx64")]
mod ptx;
