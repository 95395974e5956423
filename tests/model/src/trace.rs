//! What happens in an execution, step by step, so that the one that fails can be told.

use std::sync::{Arc, Mutex, PoisonError};

use allfold_kernels::protocol::abi::{Phase, Rank};
use allfold_kernels::protocol::epoch::Epoch;
use allfold_kernels::protocol::machine::Pack;
use allfold_kernels::protocol::push::Cursor;
use allfold_kernels::protocol::spec::Order;

use crate::program::Area;

/// Who did a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    /// The rank.
    pub rank: Rank,
    /// The thread of a kernel; `None`: the stream, between two kernels.
    pub thread: Option<Thread>,
}

/// A thread of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The number of the call, from 1.
    pub call: u32,
    /// Its block.
    pub block: u32,
    /// Its number in the block.
    pub thread: u32,
}

impl Who {
    /// The call; 0 for a stream.
    pub fn call(self) -> u32 {
        self.thread.map_or(0, |thread| thread.call)
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Began its call.
    Begin,
    /// Stored or loaded a flag.
    Flag(FlagStep),
    /// Came to a block sync.
    Sync,
    /// Stores or loads a pack.
    Data(DataStep),
    /// Stores (what) or loads the epoch word of a block of its rank.
    EpochWord {
        /// The block.
        block: u32,
        /// What is stored.
        stored: Option<Epoch>,
    },
    /// Stores (what) or loads the cursor of a block of its rank.
    Cursor {
        /// The block.
        block: u32,
        /// What is stored.
        stored: Option<Cursor>,
    },
}

/// An access to a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlagStep {
    /// Stored, not loaded.
    pub tells: bool,
    /// To whom, or from whom.
    pub peer: Rank,
    /// In which barrier.
    pub phase: Phase,
    /// What. Of [`Phase::Landing`] it is the serial number of a generation.
    pub epoch: Epoch,
    /// How.
    pub order: Order,
}

/// An access to a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataStep {
    /// Stored, not loaded.
    pub stores: bool,
    /// Where.
    pub area: Area,
    /// Whose.
    pub owner: Rank,
    /// Which.
    pub pack: u32,
    /// What; `None`: a load that failed.
    pub value: Option<Pack>,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Who did it.
    pub who: Who,
    /// What was done.
    pub what: What,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing orders the last step with an earlier access to the same place.
    Race,
    /// A sum is not what it must be.
    WrongSum {
        /// On which rank.
        rank: Rank,
        /// Of which call.
        call: u32,
        /// Which pack.
        pack: u32,
        /// What it is.
        got: Pack,
    },
    /// A thread waits for a flag that nobody will store.
    Hang {
        /// Which rank waits.
        waits: Rank,
        /// Whose flag it is.
        missing: Rank,
        /// In which barrier.
        phase: Phase,
    },
    /// Something that the model did not expect; what it said.
    Broken(String),
}

/// What is known of an exploration while it runs.
#[derive(Debug, Default)]
pub struct Record {
    /// Executions begun.
    pub executions: u64,
    /// Steps of the present one.
    pub steps: Vec<Step>,
    /// Why it failed, where the model itself found it.
    pub failure: Option<Failure>,
}

/// A record that outlives the executions.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Record>>);

impl Log {
    /// Runs `change` on the record.
    pub fn with<R>(&self, change: impl FnOnce(&mut Record) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins the next execution.
    pub fn begin(&self) {
        self.with(|record| {
            record.executions += 1;
            record.steps.clear();
        });
    }

    /// Adds a step.
    pub fn push(&self, who: Who, what: What) {
        self.with(|record| record.steps.push(Step { who, what }));
    }

    /// The load that is the last step gave `value`.
    pub fn saw(&self, value: Pack) {
        self.with(|record| {
            if let Some(Step { what: What::Data(step), .. }) = record.steps.last_mut() {
                step.value = Some(value);
            }
        });
    }

    /// Ends the execution and the exploration.
    ///
    /// # Panics
    /// Always: that is how loom is told.
    pub fn fail(&self, failure: Failure) -> ! {
        self.with(|record| record.failure = Some(failure));
        panic!("the model failed")
    }
}
