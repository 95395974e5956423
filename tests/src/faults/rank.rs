//! A rank with its communicator, and calls whose results it checks.

use std::time::{Duration, Instant};

use allfold::{
    Algorithm, CallOptions, Communicator, Dtype, Element, Error, InputMode, ReduceOp, Registered, Registration,
    of_dtype,
};
use anyhow::{Context, Result, ensure};

use super::{Ground, RankMemory};
use crate::numbers::{encode, write};

/// Bytes of a call at most, where nothing else is said.
pub const BYTES: usize = 4096;

/// A call of a rank's.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Its dtype.
    pub dtype: Dtype,
    /// Its elements.
    pub elems: usize,
    /// Its algorithm.
    pub algorithm: Algorithm,
    /// Its input mode.
    pub input: InputMode,
    /// Its grid, if not the plan's.
    pub grid: Option<(u32, u32)>,
    /// Whether the plan's algorithm is taken in place of this one.
    pub planned: bool,
}

impl Call {
    /// As it is asked for; `name` is of the buffers, where they are registered.
    pub fn options(&self, name: Option<Registration>) -> CallOptions {
        let registered = match (self.input, name) {
            (InputMode::Registered, Some(name)) if self.planned || !self.algorithm.pushes() => {
                Registered::By { input: name, output: name }
            }
            _ => Registered::No,
        };
        CallOptions {
            algorithm: Some(self.algorithm).filter(|_| !self.planned),
            input: Some(self.input),
            registered,
            blocks: self.grid.map(|(blocks, _)| blocks),
            threads: self.grid.map(|(_, threads)| threads),
        }
    }

    /// What `rank` gives to call `number`.
    pub fn input(&self, rank: u32, number: u32) -> Vec<u8> {
        self.bytes(|elem| (rank + 1) * (1 + (number + elem) % 5))
    }

    /// What an output holds before it.
    pub fn poison(&self) -> Vec<u8> {
        self.bytes(|_| 77)
    }

    /// What every rank of `world` has to get of call `number`.
    pub fn sum(&self, world: u32, number: u32) -> Vec<u8> {
        let all = (0..world).map(|rank| rank + 1).sum::<u32>();
        self.bytes(|elem| all * (1 + (number + elem) % 5))
    }

    fn bytes(&self, of: impl Fn(u32) -> u32) -> Vec<u8> {
        let mut bytes = vec![0; self.elems * self.dtype.bytes()];
        // Small integers, which every dtype has.
        (0..self.elems)
            .for_each(|elem| write(self.dtype, &mut bytes, elem, encode(self.dtype, of(elem as u32).into())));
        bytes
    }

    /// Compares an output with what it has to be.
    ///
    /// # Errors
    /// The first element that is not.
    pub fn check(&self, got: &[u8], world: u32, number: u32) -> Result<()> {
        let wanted = self.sum(world, number);
        let bytes = self.dtype.bytes();
        let differs = got.chunks(bytes).zip(wanted.chunks(bytes)).position(|(got, wanted)| got != wanted);
        ensure!(got.len() == wanted.len(), "{} bytes, not {}", got.len(), wanted.len());
        match differs {
            None => Ok(()),
            Some(elem) => {
                let at = bytes * elem..bytes * (elem + 1);
                let (got, wanted) = (&got[at.clone()], &wanted[at]);
                anyhow::bail!("WRONG SUM: element {elem} of call {number} is {got:x?}, not {wanted:x?}")
            }
        }
    }
}

/// A rank with its communicator, and memory that others can reach.
pub struct Rank {
    // Gone before its memory.
    /// The communicator.
    pub comm: Communicator,
    memory: RankMemory,
    name: Option<Registration>,
    /// Which rank it is.
    pub rank: u32,
    /// Of how many.
    pub world: u32,
    /// How long its last call took.
    pub took: Duration,
}

impl Rank {
    /// The rank of `comm`, on `ground`, for calls of `bytes` bytes.
    ///
    /// # Errors
    /// The library's.
    pub fn new(mut comm: Communicator, ground: Ground, bytes: usize) -> allfold::Result<Rank> {
        let rank = comm.local_ranks().start as u32;
        let memory = ground.memory(4 * bytes)?;
        // SAFETY: `Rank::leave` says when the memory goes: when the communicators of all ranks are gone, or it goes with its process.
        let name = unsafe { comm.register(&[memory.span()]) }?;
        Ok(Rank { world: comm.world() as u32, comm, memory, name: Some(name), rank, took: Duration::ZERO })
    }

    /// Makes a call, waits for it, and checks what comes of it: what the library says.
    ///
    /// # Errors
    /// A sum is wrong, or the memory cannot be used.
    pub fn call(&mut self, call: Call, number: u32) -> Result<allfold::Result<()>> {
        self.memory.write(&call.input(self.rank, number), &call.poison()).context("writing an input")?;
        let begun = Instant::now();
        let done = of_dtype!(call.dtype, T => self.launch::<T>(call));
        self.took = begun.elapsed();
        if done.is_ok() {
            let got = self.memory.output(call.elems * call.dtype.bytes()).context("reading an output")?;
            call.check(&got, self.world, number)?;
        }
        Ok(done)
    }

    fn launch<T: Element>(&mut self, call: Call) -> Result<(), Error> {
        let options = call.options(self.name);
        // Left as it is until the call is done.
        let buffers = [self.memory.buffers::<T>(call.elems, None)];
        self.comm.all_reduce_with(&buffers, ReduceOp::Sum, &options)?;
        self.memory.synchronize()?;
        self.comm.check()
    }

    /// Drops the communicator. The memory may go when all ranks have done so: until then peers may be in a call that uses it.
    pub fn leave(self) -> RankMemory {
        let Rank { comm, memory, .. } = self;
        drop(comm);
        memory
    }

    /// Makes a call that has to be right.
    ///
    /// # Errors
    /// It is not.
    pub fn good(&mut self, call: Call, number: u32) -> Result<()> {
        self.call(call, number)?.with_context(|| format!("call {number}"))
    }
}
