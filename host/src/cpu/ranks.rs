//! The ranks of a communicator on the CPU: their workspaces, and a plan made into jobs.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use allfold_kernels::protocol::abi::{
    Algorithm, Dtype, FIRST_WRONG_OFFSET_BYTES, FIRST_WRONG_WORDS, KernelArgs, MAX_BLOCKS, MAX_RANKS,
    WRONG_OFFSET_BYTES, WorkspaceLayout,
};
use allfold_kernels::protocol::epoch::Epoch;

use super::area::Area;
use super::boards::Areas;
use super::kernels::Kernel;
use super::sharing::CpuSharing;
use super::workers::{Job, Workers};
use crate::arguments::{Peers, Workspaces};
use crate::buffers::{Place, RawBuffers};
use crate::error::{Error, Result};
use crate::members::Members;
use crate::options::Options;
use crate::plan::{Limits, Plan};
use crate::processes::{Meeting, check_room, exchange};
use crate::reach::{Lease, Reach};
use crate::request::Request;
use crate::stop::{Boards, Word};
use crate::tuning::Origin;

/// The ranks of one communicator that this process drives, and the workspaces of all.
pub(crate) struct CpuRanks {
    // Ended before the areas that they work on.
    workers: Workers,
    pub(super) areas: Arc<Areas>,
    pub(super) workspaces: Workspaces,
    limits: Limits,
    reach: Reach<CpuSharing>,
    /// What calls are put into that are not to be run now.
    recording: Option<CpuRecording>,
    /// Nobody records any more once this is gone: whoever began may have lost sight of these ranks.
    recorder: Weak<()>,
    /// Paths that do not work.
    #[cfg(test)]
    planted: super::planted::Planted,
}

/// Calls that can be run again and again.
pub(crate) struct CpuRecording {
    jobs: Vec<Job>,
    lease: Arc<Lease>,
}

impl Drop for CpuRanks {
    /// No call runs: this process's ranks have done all that they will.
    fn drop(&mut self) {
        self.areas.leave();
    }
}

impl CpuRanks {
    /// All ranks in this process.
    pub(crate) fn new(layout: WorkspaceLayout, options: &Options, limits: Limits) -> Result<CpuRanks> {
        CpuRanks::check(options)?;
        let areas = (0..limits.world).map(|_| Area::own(&layout, options.last_epoch)).collect::<Result<_>>()?;
        CpuRanks::over(areas, Members::all(limits.world), layout, options, limits)
    }

    /// The rank of `meeting` in this process, and its peers in theirs. `options` have been checked and agreed upon.
    pub(crate) fn connect(
        meeting: &Meeting<'_>,
        layout: WorkspaceLayout,
        options: &Options,
        limits: Limits,
    ) -> Result<CpuRanks> {
        // Before any rank allocates: what is left then depends on who was first.
        meeting.done(check_room((layout.total_bytes as u64).saturating_mul(u64::from(limits.world))))?;
        let (own, descriptor) = meeting.done(Area::shared(&layout, options.last_epoch))?;
        let descriptors = exchange(meeting, &[descriptor.as_fd()])?;
        let mut own = Some(own);
        let areas = descriptors.iter().filter_map(|descriptors| match descriptors.first() {
            Some(descriptor) => Some(Area::of_peer(descriptor, &layout)),
            None => own.take().map(Ok),
        });
        let areas = areas.collect::<Result<_>>();
        let over = |areas| CpuRanks::over(areas, meeting.members(), layout, options, limits);
        meeting.done(areas.and_then(over))
    }

    /// Whether CPU ranks can be what `options` say.
    pub(crate) fn check(options: &Options) -> Result<()> {
        let (blocks, threads) = options.cpu_shape;
        let (max_blocks, max_threads) = (MAX_BLOCKS as u32, 1024);
        if !(1..=max_blocks).contains(&blocks) || !(1..=max_threads).contains(&threads) {
            return Err(Error::Grid { blocks, threads, max_blocks, max_threads });
        }
        match &options.tuning {
            Some(table) => Ok(table.check_device(Origin::CPU)?),
            None => Ok(()),
        }
    }

    /// The local ranks over the workspaces of all.
    fn over(
        areas: Vec<Area>,
        members: Members,
        layout: WorkspaceLayout,
        options: &Options,
        limits: Limits,
    ) -> Result<CpuRanks> {
        let (blocks, threads) = options.cpu_shape;
        // Where all ranks are here, no row is needed.
        let rows = if members.all_local() { 0 } else { options.captured_calls };
        let mut addresses = [0; MAX_RANKS];
        addresses.iter_mut().zip(&areas).for_each(|(address, area)| *address = area.address());
        let areas = Arc::new(Areas { areas, members });
        Ok(CpuRanks {
            workers: Workers::start(members.ranks(), blocks, threads, Arc::clone(&areas) as Arc<dyn Boards>)?,
            areas,
            workspaces: Workspaces::new(addresses, layout, members, options, 0),
            limits: Limits { max_blocks: blocks, max_threads: [threads; Algorithm::ALL.len()], ..limits },
            reach: Reach::new(CpuSharing::new(rows), members, rows),
            recording: None,
            recorder: Weak::new(),
            #[cfg(test)]
            planted: super::planted::Planted::of_thread(&layout)?,
        })
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Refuses buffers that are not host memory.
    pub(crate) fn check_place(&self, buffers: &[RawBuffers<'_>]) -> Result<()> {
        for (rank, b) in (self.workspaces.members.first..).zip(buffers) {
            match b.place {
                Place::Host => {}
                Place::Device(_) => return Err(Error::WrongMemory { rank, got: "device", expected: "CPU ranks" }),
            }
        }
        Ok(())
    }

    pub(crate) fn reach(&self) -> &Reach<CpuSharing> {
        &self.reach
    }

    pub(crate) fn reach_mut(&mut self) -> &mut Reach<CpuSharing> {
        &mut self.reach
    }

    /// Where `row` of the local rank is.
    pub(crate) fn row_address(&self, row: u32) -> u64 {
        self.reach.sharing.row_address(row)
    }

    /// Waits for nothing: a call is done when it returns.
    pub(crate) fn finish(&self) -> Result<()> {
        Ok(())
    }

    /// Whether calls are recorded now.
    pub(crate) fn is_recording(&self) -> bool {
        self.recording.is_some() && self.recorder.strong_count() > 0
    }

    /// From here on calls are recorded, and not run.
    pub(crate) fn begin_recording(&mut self, recorder: &Arc<()>) {
        self.recorder = Arc::downgrade(recorder);
        self.recording = Some(CpuRecording { jobs: Vec::new(), lease: Arc::new(self.reach.lease()) });
    }

    /// From here on calls are run again.
    pub(crate) fn end_recording(&mut self) -> Option<CpuRecording> {
        self.recording.take()
    }

    /// The rows of the calls that are recorded now.
    pub(crate) fn capturing(&mut self, _buffers: &[RawBuffers<'_>]) -> Result<Arc<Lease>> {
        let rank = self.workspaces.members.first;
        self.recording
            .as_ref()
            .filter(|_| self.is_recording())
            .map(|recording| Arc::clone(&recording.lease))
            .ok_or(Error::NotCaptured { rank })
    }

    /// Runs what was recorded to its end.
    ///
    /// # Safety
    /// As for [`CpuRanks::all_reduce`], for the buffers of every recorded call.
    pub(crate) unsafe fn replay(&self, recording: &CpuRecording) -> Result<()> {
        for &job in &recording.jobs {
            // SAFETY: the caller's promise; the job was made for these workers.
            unsafe { self.workers.run(job) }?;
        }
        Ok(())
    }

    /// Runs an all-reduce to its end, or records it.
    ///
    /// # Safety
    /// The buffers are live host memory of the request's length, not accessed by anyone else until this returns, or while it is
    /// replayed.
    pub(crate) unsafe fn all_reduce(
        &mut self,
        request: &Request,
        plan: &Plan,
        buffers: &[RawBuffers<'_>],
        peers: &Peers,
    ) -> Result<()> {
        let args = self.workspaces.all_reduce(request, plan, buffers, peers);
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
    pub(crate) unsafe fn stamps(&mut self, check: bool, request: &Request, buffers: &[RawBuffers<'_>]) -> Result<()> {
        let kernel = if check { Kernel::CheckStamps } else { Kernel::FillStamps };
        let args = self.workspaces.local(request, buffers);
        // SAFETY: the caller's promise.
        unsafe { self.run(kernel, request.dtype, args, self.limits.max_blocks, self.limits.threads_of_all()) }
    }

    /// # Safety
    /// As for [`CpuRanks::all_reduce`].
    unsafe fn run(
        &mut self,
        kernel: Kernel,
        dtype: Dtype,
        args: [KernelArgs; MAX_RANKS],
        blocks: u32,
        threads: u32,
    ) -> Result<()> {
        #[cfg(test)]
        let args = self.planted.spoil(args, &self.workspaces.layout);
        let job = Job { kernel, dtype, args, blocks, threads };
        if self.recorder.strong_count() > 0
            && let Some(recording) = &mut self.recording
        {
            recording.jobs.push(job);
            return Ok(());
        }
        // SAFETY: the buffers by the caller's promise; the workspaces are this communicator's own and live as long;
        // a plan's grid is within the limits, which are the workers' shape.
        unsafe { self.workers.run(job) }
    }

    /// Where the host can tell ranks something.
    pub(crate) fn boards(&self) -> Arc<dyn Boards> {
        Arc::clone(&self.areas) as Arc<dyn Boards>
    }

    /// Whether a local rank has stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.areas.local().any(Area::is_stopped)
    }

    /// What each local rank has left word of.
    pub(crate) fn left(&self) -> Result<Vec<Word>> {
        Ok(self.areas.local().map(Area::left).collect())
    }

    /// What each rank has told the local rank of this index of the call of `epoch`.
    pub(crate) fn told(&self, index: usize, epoch: Epoch) -> Result<[[u64; 2]; MAX_RANKS]> {
        Ok(self.areas.local().nth(index).map_or([[0; 2]; MAX_RANKS], |area| area.told(epoch)))
    }

    /// The marks of each local rank.
    pub(crate) fn marks(&self) -> Result<Vec<Vec<u64>>> {
        let layout = &self.workspaces.layout;
        let offsets = (layout.marks_offset_bytes..layout.total_bytes).step_by(size_of::<u64>());
        let of = |area: &Area| offsets.clone().map(|offset| area.word(offset).load(Ordering::Relaxed)).collect();
        Ok(self.areas.local().map(of).collect())
    }

    /// Wrong elements that each local rank has counted.
    pub(crate) fn wrong(&self) -> Result<Vec<u64>> {
        Ok(self.areas.local().map(|area| area.word(WRONG_OFFSET_BYTES).load(Ordering::Relaxed)).collect())
    }

    /// The words of each local rank about its first wrong element.
    pub(crate) fn first_wrong(&self) -> Result<Vec<[u64; FIRST_WRONG_WORDS]>> {
        let word = |area: &Area, offset| area.word(FIRST_WRONG_OFFSET_BYTES + offset).load(Ordering::Relaxed);
        Ok(self.areas.local().map(|area| std::array::from_fn(|at| word(area, 8 * at))).collect())
    }
}
