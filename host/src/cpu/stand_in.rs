//! Kernels that run on the CPU in a GPU's place, for a driver that a test has put in the place of the real one. Uses the
//! CPU's machine. With the feature `driver-faults`.

use allfold_kernels::protocol::abi::KernelArgs;
use allfold_kernels::protocol::entry_point::EntryPoint;

use super::block::Block;
use super::kernels::{self, Kernel};
use super::machine::{Cpu, Place};

/// Runs block `block` of `blocks` of a kernel to its end, by one thread: whatever is launched has as many threads here.
///
/// # Safety
/// - Every address in `args` is that of live memory of the length that `args` implies, until this returns.
/// - Workspaces are as a communicator makes them, and the blocks of a launch run at the same time, as its kernels do that wait.
pub unsafe fn run_block(entry_point: EntryPoint, args: &KernelArgs, block: u32, blocks: u32) {
    let (kernel, dtype) = match entry_point {
        EntryPoint::AllReduce { dtype, algorithm, .. } => (Kernel::AllReduce(algorithm), dtype),
        EntryPoint::Stage(dtype) => (Kernel::Stage, dtype),
        EntryPoint::FillStamps(dtype) => (Kernel::FillStamps, dtype),
        EntryPoint::CheckStamps(dtype) => (Kernel::CheckStamps, dtype),
    };
    let (place, sync) = (Place { block, blocks, thread: 0, threads: 1 }, Block::new());
    // SAFETY: the caller's promise; the block has one thread.
    let machine = unsafe { Cpu::new(args, place, &sync) };
    kernels::run(kernel, dtype, args, &machine);
}
