//! Buffers that are right until a property makes them wrong, and a look at whether a refusal left them alone.

use allfold::{CallOptions, Communicator, Dtype, Error, RawBuffers, ReduceOp};
use anyhow::{Context, Result, bail, ensure};

use crate::data::Data;
use crate::machine::{Memory, buffers, raw_buffers};
use crate::numbers::{read, same, write};
use crate::oracle;
use crate::suite::Bench;

/// Elements of a call that nobody changes.
const ELEMS: usize = 100;
/// Offsets of the buffers that nobody changes: aligned, and with room on all sides.
const INPUT: usize = 1024;
const OUTPUT: usize = 4096;
const BYTES: usize = 8192;

/// Memory of each rank.
pub struct Setup {
    memories: Vec<Box<dyn Memory>>,
}

type Change<'c> = &'c mut dyn FnMut(&mut Vec<RawBuffers<'_>>);

impl Setup {
    pub fn new(bench: &Bench, world: usize) -> Result<Setup> {
        Ok(Setup { memories: (0..world).map(|rank| bench.machine.memory(rank, BYTES)).collect::<Result<_>>()? })
    }

    /// The buffers of a call that is right.
    pub fn buffers(&self, dtype: Dtype) -> Vec<RawBuffers<'_>> {
        // SAFETY: used for one call at a time; nothing else touches them meanwhile.
        self.memories.iter().map(|m| unsafe { raw_buffers(dtype, &**m, INPUT, OUTPUT, ELEMS) }).collect()
    }

    /// Ramps everywhere, so that every buffer there has something to sum and something to lose.
    fn image(dtype: Dtype, rank: usize) -> Vec<u8> {
        let mut image = vec![0; BYTES];
        (0..BYTES / dtype.bytes())
            .for_each(|elem| write(dtype, &mut image, elem, Data::Ramp(0).bits(dtype, rank, elem)));
        image
    }

    fn call(
        &mut self,
        comm: &mut Communicator,
        dtype: Dtype,
        change: Change<'_>,
        options: CallOptions,
    ) -> Result<allfold::Result<()>> {
        for (rank, memory) in self.memories.iter_mut().enumerate() {
            memory.upload(&Setup::image(dtype, rank))?;
        }
        let mut all = self.buffers(dtype);
        change(&mut all);
        // SAFETY: refused, or inside the memories, which outlive the streams' work.
        let result = unsafe { comm.all_reduce_raw(dtype, &all, ReduceOp::Sum, &options) };
        self.memories.iter().try_for_each(|memory| memory.synchronize())?;
        comm.check().context("a wait was given up")?;
        Ok(result.map(drop))
    }

    fn images(&self) -> Result<Vec<Vec<u8>>> {
        let mut images = vec![vec![0; BYTES]; self.memories.len()];
        self.memories.iter().zip(&mut images).try_for_each(|(memory, image)| memory.download(image))?;
        Ok(images)
    }

    /// The refusal of a call whose buffers `change` has made wrong.
    pub fn refused(
        &mut self,
        bench: &Bench,
        comm: &mut Communicator,
        dtype: Dtype,
        change: impl FnMut(&mut Vec<RawBuffers<'_>>),
    ) -> Result<Error> {
        self.refused_with(bench, comm, dtype, change, CallOptions::default())
    }

    /// [`Setup::refused`] for a call that asks for something.
    pub fn refused_with(
        &mut self,
        bench: &Bench,
        comm: &mut Communicator,
        dtype: Dtype,
        mut change: impl FnMut(&mut Vec<RawBuffers<'_>>),
        options: CallOptions,
    ) -> Result<Error> {
        let Err(error) = self.call(comm, dtype, &mut change, options)? else {
            bail!("a call that must be refused was not: {dtype:?} {options:?}");
        };
        for (rank, image) in self.images()?.iter().enumerate() {
            ensure!(*image == Setup::image(dtype, rank), "refused with {error:?}, but rank {rank} was written to");
        }
        bench.count(1);
        Ok(error)
    }

    /// That a call is *not* refused, and gives the sums that it must.
    pub fn accepted(
        &mut self,
        bench: &Bench,
        comm: &mut Communicator,
        dtype: Dtype,
        mut change: impl FnMut(&mut Vec<RawBuffers<'_>>),
        options: CallOptions,
    ) -> Result<()> {
        self.call(comm, dtype, &mut change, options)?.with_context(|| format!("{dtype:?} {options:?}"))?;
        let mut all = self.buffers(dtype);
        change(&mut all);
        let elem_of = |rank: usize, address: u64| (address - self.memories[rank].address()) as usize / dtype.bytes();
        for (rank, image) in self.images()?.iter().enumerate() {
            for elem in 0..all[rank].output_elems as usize {
                let term = |rank: usize| Data::Ramp(0).bits(dtype, rank, elem_of(rank, all[rank].input) + elem);
                let want = oracle::sum(dtype, &(0..all.len()).map(term).collect::<Vec<_>>());
                let got = read(dtype, image, elem_of(rank, all[rank].output) + elem);
                ensure!(same(dtype, want, got), "rank {rank}, element {elem}: {got:#x}, not {want:#x}; {options:?}");
            }
        }
        bench.count(1);
        Ok(())
    }

    /// That a call of no elements succeeds and writes nothing.
    pub fn empty(
        &mut self,
        bench: &Bench,
        comm: &mut Communicator,
        dtype: Dtype,
        mut change: impl FnMut(&mut Vec<RawBuffers<'_>>),
    ) -> Result<()> {
        self.call(comm, dtype, &mut change, CallOptions::default())?.context("an empty call was refused")?;
        for (rank, image) in self.images()?.iter().enumerate() {
            ensure!(*image == Setup::image(dtype, rank), "an empty call wrote to rank {rank}");
        }
        bench.count(1);
        Ok(())
    }

    /// The refusal of typed buffers for `ranks` ranks.
    pub fn typed_refused(&mut self, comm: &mut Communicator, ranks: usize) -> Result<Error> {
        // SAFETY: refused, so never used.
        let first = || unsafe { buffers::<f32>(&*self.memories[0], INPUT, OUTPUT, ELEMS) };
        let all: Vec<_> = (0..ranks).map(|_| first()).collect();
        comm.all_reduce(&all, ReduceOp::Sum).err().context("a wrong number of ranks was taken")
    }

    /// The refusal of stamps by a communicator that was not made for them.
    pub fn stamps_refused(&mut self, comm: &mut Communicator) -> Result<Error> {
        // SAFETY: refused, so never used.
        let all: Vec<_> = self.memories.iter().map(|m| unsafe { buffers::<f32>(&**m, INPUT, OUTPUT, ELEMS) }).collect();
        match (comm.fill_stamps(&all), comm.check_stamps(&all)) {
            (Err(error), Err(_)) => Ok(error),
            (fill, check) => bail!("stamps were not refused: {fill:?}, {check:?}"),
        }
    }
}

/// Fails unless an error matches a pattern.
macro_rules! refused {
    ($error:expr, $pattern:pat $(if $guard:expr)?) => {{
        let error = $error;
        anyhow::ensure!(
            matches!(error, $pattern $(if $guard)?),
            "refused with {error:?}, line {} asks for another error or other numbers",
            line!()
        );
    }};
}
pub(super) use refused;
