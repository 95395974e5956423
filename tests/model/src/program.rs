//! What is explored: a row of calls on a shape, and what the caller does in between.

use std::fmt::{self, Display, Formatter};

use allfold_kernels::protocol::abi::{Algorithm, Bank, Dtype, InputMode, Phase};
use allfold_kernels::protocol::epoch::Epoch;
use allfold_kernels::protocol::push::Cursor;
use allfold_kernels::protocol::share::part_packs;
use allfold_kernels::protocol::spec::{Protocol, Reuse};
use serde::{Deserialize, Serialize};

use crate::page::names;

/// How many ranks, blocks a rank, threads a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Ranks.
    pub ranks: u32,
    /// Blocks of a rank: the most that any call launches.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
}

impl Display for Shape {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.ranks, self.blocks, self.threads)
    }
}

/// One all-reduce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// How peers see the input.
    pub input: InputMode,
    /// The protocol.
    pub protocol: Protocol,
    /// Blocks of its launch.
    pub blocks: u32,
    /// Packs, if not those of the whole program.
    pub packs: Option<u32>,
    /// Its elements: f32, or i32, whose words land beside flags.
    pub dtype: Dtype,
}

/// What the caller does with its buffers. A staged input is private to its rank: then the first two are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Two input buffers in turn: one is written again when the call after its own has ended.
    InTurn,
    /// One input buffer, written again at once after its call.
    Rewritten,
    /// One buffer: the sum lands on the input, and the next input on the sum.
    InPlace,
    /// The sum of a call is the input of the next.
    Chained,
}

/// Kinds of access that a kernel makes, in the order of their first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Of the epoch word, or of the cursor.
    Epoch,
    /// Of a flag.
    Flag,
    /// Of a pack.
    Data,
}

/// When a kernel may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launch {
    /// When all before it in its stream has ended.
    InOrder,
    /// Before the end of the kernel that writes its input, for which it waits before its first access of this kind:
    /// programmatic dependent launch. That kernel is the call before, or for the first call one that only writes.
    Early(Access),
}

/// A row of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its shape.
    pub shape: Shape,
    /// The calls. With an early launch, one or two.
    pub calls: Vec<Call>,
    /// What the caller does in between.
    pub usage: Usage,
    /// When the last call may begin. All others begin in order.
    pub launch: Launch,
    /// The epoch before the first call.
    pub last: Epoch,
    /// Where the pushes before the first call left off.
    pub cursor: Cursor,
    /// Packs of a landing slot that small calls share.
    pub shared_packs: u32,
    /// Whether a pack lands word by word, not at once, or a word of data apart from its flag.
    pub torn: bool,
}

/// An area of a rank's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// The caller's input, private to its rank.
    Source,
    /// A registered buffer of the caller.
    Buffer(u32),
    /// A bank of the staging area.
    Staging(u32),
    /// Reduced parts.
    Scratch,
    /// The caller's output, private to its rank.
    Output,
}

impl Area {
    /// All areas of a rank.
    pub const ALL: [Area; 7] = [
        Area::Source,
        Area::Buffer(0),
        Area::Buffer(1),
        Area::Staging(0),
        Area::Staging(1),
        Area::Scratch,
        Area::Output,
    ];

    /// Whether peers read it.
    pub const fn shared(self) -> bool {
        match self {
            Area::Source | Area::Output => false,
            Area::Buffer(_) | Area::Staging(_) | Area::Scratch => true,
        }
    }

    /// Its place in [`Area::ALL`].
    pub const fn index(self) -> u32 {
        match self {
            Area::Source => 0,
            Area::Buffer(buffer) => 1 + buffer,
            Area::Staging(bank) => 3 + bank,
            Area::Scratch => 5,
            Area::Output => 6,
        }
    }
}

/// The form of its calls, the shape, and grids of several sizes where there are such.
impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let form = |call: &Call| format!("{} {}", names::algorithm(call.algorithm), names::input(call.input));
        let mut forms: Vec<_> = self.calls.iter().map(form).collect();
        forms.dedup();
        write!(f, "{}, {}", forms.join(" then "), self.shape)?;
        let grids: Vec<_> = self.calls.iter().map(|call| call.blocks.to_string()).collect();
        if self.calls.iter().any(|call| call.blocks != self.shape.blocks) {
            write!(f, " with grids of {}", grids.join(", "))?;
        }
        Ok(())
    }
}

impl Program {
    /// No calls.
    pub const EMPTY: Program = Program {
        shape: Shape { ranks: 2, blocks: 1, threads: 1 },
        calls: Vec::new(),
        usage: Usage::Rewritten,
        launch: Launch::InOrder,
        last: Epoch(0),
        cursor: Cursor { serial: 0, used: 0, announced: false },
        shared_packs: 2,
        torn: false,
    };

    /// Packs of every call that does not say: one for each thread of a rank, in each part if there are parts.
    pub fn packs(&self) -> u32 {
        let Shape { ranks, blocks, threads } = self.shape;
        let parts = |call: &Call| match call.algorithm {
            Algorithm::OneShot | Algorithm::OneShotPush => 1,
            Algorithm::TwoShot | Algorithm::TwoShotPush | Algorithm::OnePass | Algorithm::Exchange => ranks,
        };
        self.calls.iter().map(parts).max().unwrap_or(1) * blocks * threads
    }

    /// Packs of call `number`.
    pub fn packs_of(&self, number: u32) -> u32 {
        self.call(number).packs.unwrap_or_else(|| self.packs())
    }

    /// Packs of the largest call.
    pub fn most_packs(&self) -> u32 {
        (1..=self.calls.len() as u32).map(|number| self.packs_of(number)).max().unwrap_or(0)
    }

    /// The epoch of call `number`.
    pub fn epoch(&self, number: u32) -> Epoch {
        Epoch(self.last.0.wrapping_add(number.into()))
    }

    /// Packs that call `number` lands in a slot; `None`: it is no push.
    pub fn extent(&self, number: u32) -> Option<u32> {
        let (packs, each) = (self.packs_of(number), self.call(number).dtype.landing_packs());
        match self.call(number).algorithm {
            Algorithm::OneShotPush => Some(packs * each),
            Algorithm::TwoShotPush => Some(2 * part_packs(packs.into(), self.shape.ranks) as u32 * each),
            Algorithm::OneShot | Algorithm::TwoShot | Algorithm::OnePass | Algorithm::Exchange => None,
        }
    }

    /// Where the cursor is after the first `calls` calls.
    pub fn cursor_after(&self, calls: u32) -> Cursor {
        let extents = (1..=calls).filter_map(|number| self.extent(number));
        extents.fold(self.cursor, |cursor, extent| cursor.after(extent, self.shared_packs))
    }

    /// Packs of a landing slot: 0 where nothing is pushed.
    pub fn landing_packs(&self) -> u32 {
        let extents = (1..=self.calls.len() as u32).filter_map(|number| self.extent(number));
        extents.max().map_or(0, |largest| largest.max(self.shared_packs))
    }

    /// Threads that a rank takes in the model.
    pub fn threads_of_rank(&self) -> u32 {
        match self.launch {
            Launch::InOrder => self.shape.blocks * self.shape.threads,
            // One for each of the two kernels that run at a time.
            Launch::Early(_) => 2,
        }
    }

    /// The call of this number, from 1.
    pub fn call(&self, number: u32) -> &Call {
        &self.calls[number as usize - 1]
    }

    fn buffer(&self, number: u32) -> Area {
        match self.usage {
            Usage::InTurn | Usage::Chained => Area::Buffer(number % 2),
            Usage::Rewritten | Usage::InPlace => Area::Buffer(0),
        }
    }

    /// Where the caller's input of call `number` is.
    pub fn source(&self, number: u32) -> Area {
        if self.call(number).input.staged() { Area::Source } else { self.buffer(number) }
    }

    /// Where all ranks read that input.
    pub fn input(&self, number: u32, bank: Bank) -> Area {
        let call = self.call(number);
        match (call.input.staged(), call.protocol.alternates()) {
            (false, _) => self.buffer(number),
            (true, true) => Area::Staging(bank.0),
            (true, false) => Area::Staging(0),
        }
    }

    /// Where the sum of call `number` goes.
    pub fn output(&self, number: u32) -> Area {
        match self.usage {
            Usage::InPlace => self.source(number),
            Usage::Chained if (number as usize) < self.calls.len() => self.source(number + 1),
            Usage::InTurn | Usage::Rewritten | Usage::Chained => Area::Output,
        }
    }

    /// Whether any call has flags of `phase`.
    pub fn uses(&self, phase: Phase) -> bool {
        self.calls.iter().any(|call| match phase {
            Phase::Start => !call.algorithm.pushes(),
            Phase::Middle => [Algorithm::TwoShot, Algorithm::Exchange].contains(&call.algorithm),
            Phase::Landing => call.algorithm.pushes(),
            Phase::End => match call.protocol.reuse {
                Reuse::EndBarrier { .. } => true,
                Reuse::Parity | Reuse::Nothing => false,
            },
        })
    }
}
