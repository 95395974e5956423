//! The ranks of a communicator on the CPU: their workspaces, and a plan made into jobs.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use allfold_kernels::protocol::abi::{
    AREA_ALIGN_BYTES, Algorithm, Dtype, FIRST_WRONG_OFFSET_BYTES, GAVE_UP_OFFSET_BYTES, KernelArgs, MARKER, MAX_BLOCKS,
    MAX_RANKS, WRONG_OFFSET_BYTES, WorkspaceLayout, first_words,
};

use super::kernels::Kernel;
use super::workers::{Job, Workers};
use crate::arguments::Workspaces;
use crate::buffers::{Place, RawBuffers};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::plan::{Limits, Plan};
use crate::request::Request;
use crate::tuning::Origin;

/// Zeroed memory that lives as long as this.
struct Area {
    start: NonNull<u8>,
    layout: Layout,
}

impl Area {
    fn new(bytes: usize) -> Result<Area> {
        let too_little = || Error::Host {
            what: "allocating a CPU rank's workspace",
            source: std::io::Error::from(std::io::ErrorKind::OutOfMemory),
        };
        let layout = Layout::from_size_align(bytes, AREA_ALIGN_BYTES).map_err(|_| too_little())?;
        // SAFETY: a workspace has flags at least, so its size is not 0.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(too_little)?;
        Ok(Area { start, layout })
    }

    fn word(&self, offset_bytes: usize) -> &AtomicU64 {
        debug_assert!(offset_bytes + 8 <= self.layout.size());
        // SAFETY: an aligned word inside the area, never accessed but atomically while calls run.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(offset_bytes).cast()) }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

// SAFETY: an area is memory and nothing else.
unsafe impl Send for Area {}

/// All ranks of one communicator.
pub(crate) struct CpuRanks {
    // Ended before the areas that they work on.
    workers: Workers,
    areas: Vec<Area>,
    workspaces: Workspaces,
    limits: Limits,
}

impl CpuRanks {
    pub(crate) fn new(world: u32, layout: WorkspaceLayout, options: &Options, limits: Limits) -> Result<CpuRanks> {
        let (blocks, threads) = options.cpu_shape;
        let (max_blocks, max_threads) = (MAX_BLOCKS as u32, 1024);
        if !(1..=max_blocks).contains(&blocks) || !(1..=max_threads).contains(&threads) {
            return Err(Error::Grid { blocks, threads, max_blocks, max_threads });
        }
        if let Some(table) = &options.tuning {
            table.check_device(Origin::CPU)?;
        }
        let areas = (0..world).map(|_| Area::new(layout.total_bytes)).collect::<Result<Vec<_>>>()?;
        let mut addresses = [0; MAX_RANKS];
        for (address, area) in addresses.iter_mut().zip(&areas) {
            *address = area.start.as_ptr() as u64;
            for offset in (layout.landing_offset_bytes..layout.total_bytes).step_by(size_of::<u64>()) {
                area.word(offset).store(u64::from(MARKER) << 32 | u64::from(MARKER), Ordering::Relaxed);
            }
            for (index, word) in first_words(options.last_epoch).enumerate() {
                area.word(index * size_of::<u64>()).store(word, Ordering::Relaxed);
            }
        }
        Ok(CpuRanks {
            workers: Workers::start(world, blocks, threads)?,
            areas,
            workspaces: Workspaces::new(addresses, layout, world, options),
            limits: Limits { max_blocks: blocks, max_threads: [threads; Algorithm::ALL.len()], ..limits },
        })
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Refuses buffers that are not host memory.
    pub(crate) fn check_place(&self, buffers: &[RawBuffers<'_>]) -> Result<()> {
        for (rank, b) in (0..).zip(buffers) {
            match b.place {
                Place::Host => {}
                Place::Device(_) => return Err(Error::WrongMemory { rank, got: "device", expected: "CPU ranks" }),
            }
        }
        Ok(())
    }

    /// Runs an all-reduce to its end.
    ///
    /// # Safety
    /// The buffers are live host memory of the request's length, not accessed by anyone else until this returns.
    pub(crate) unsafe fn all_reduce(&self, request: &Request, plan: &Plan, buffers: &[RawBuffers<'_>]) -> Result<()> {
        let args = self.workspaces.all_reduce(request, plan, buffers);
        if plan.stages() {
            // SAFETY: the caller's promise.
            unsafe { self.run(Kernel::Stage, request.dtype, args, plan.blocks, plan.threads) }?;
        }
        // SAFETY: the caller's promise.
        unsafe { self.run(Kernel::AllReduce(plan.algorithm), request.dtype, args, plan.blocks, plan.threads) }
    }

    /// Runs a stamp kernel to its end.
    ///
    /// # Safety
    /// As for [`CpuRanks::all_reduce`].
    pub(crate) unsafe fn stamps(&self, check: bool, request: &Request, buffers: &[RawBuffers<'_>]) -> Result<()> {
        let kernel = if check { Kernel::CheckStamps } else { Kernel::FillStamps };
        let args = self.workspaces.local(request, buffers);
        // SAFETY: the caller's promise.
        unsafe { self.run(kernel, request.dtype, args, self.limits.max_blocks, self.limits.threads_of_all()) }
    }

    /// # Safety
    /// As for [`CpuRanks::all_reduce`].
    unsafe fn run(
        &self,
        kernel: Kernel,
        dtype: Dtype,
        args: [KernelArgs; MAX_RANKS],
        blocks: u32,
        threads: u32,
    ) -> Result<()> {
        // SAFETY: the buffers by the caller's promise; the workspaces are this communicator's own and live as long;
        // a plan's grid is within the limits, which are the workers' shape.
        unsafe { self.workers.run(Job { kernel, dtype, args, blocks, threads }) }
    }

    /// The status word of each rank.
    pub(crate) fn gave_up(&self) -> Result<Vec<u64>> {
        Ok(self.areas.iter().map(|area| area.word(GAVE_UP_OFFSET_BYTES).load(Ordering::Relaxed)).collect())
    }

    /// Wrong elements that each rank has counted.
    pub(crate) fn wrong(&self) -> Result<Vec<u64>> {
        Ok(self.areas.iter().map(|area| area.word(WRONG_OFFSET_BYTES).load(Ordering::Relaxed)).collect())
    }

    /// The two words of each rank about its first wrong element.
    pub(crate) fn first_wrong(&self) -> Result<Vec<[u64; 2]>> {
        let word = |area: &Area, offset| area.word(FIRST_WRONG_OFFSET_BYTES + offset).load(Ordering::Relaxed);
        Ok(self.areas.iter().map(|area| [word(area, 0), word(area, 8)]).collect())
    }
}
