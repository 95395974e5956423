//! What is asked of the kernels: a protocol with an algorithm, an input mode and a usage. Uses `allfold-kernels`.

use std::fmt::{self, Display, Formatter};

use allfold_kernels::protocol::abi::{Algorithm, GENERATIONS, InputMode, Phase, Rank};
use allfold_kernels::protocol::machine::Region;
use allfold_kernels::protocol::spec::Protocol;

use crate::event::{Loc, Order};

/// Ranks of every program.
pub const RANKS: u32 = 2;
/// Most blocks of a call.
pub const MOST_BLOCKS: u32 = 2;
/// Packs of each part, in most programs: one for each block or thread.
pub const EACH: u64 = 2;
/// Elements of a pack, in f32.
const LANES: u64 = 4;

/// What the caller does with its input between calls. Staged, it is its rank's own matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Usage {
    /// One buffer, written again at once after its call.
    Rewritten,
    /// Two buffers in turn.
    InTurn,
    /// One buffer, and the sum lands on it.
    InPlace,
}

impl Usage {
    /// All usages.
    pub const ALL: [Usage; 3] = [Usage::Rewritten, Usage::InTurn, Usage::InPlace];
}

/// The grid of every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Blocks.
    pub blocks: u8,
    /// Threads of a block.
    pub threads: u8,
    /// Calls in a row.
    pub calls: u8,
}

/// The grids that are looked at: two blocks of a thread over three calls, a block of two threads over two, both over one.
pub const SHAPES: [Shape; 3] = [
    Shape { blocks: 2, threads: 1, calls: 3 },
    Shape { blocks: 1, threads: 2, calls: 2 },
    Shape { blocks: 2, threads: 2, calls: 1 },
];

/// What of the kernels is weakened, in all calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Weakened {
    /// Nothing.
    Nothing,
    /// Release stores are volatile.
    Release,
    /// Acquire polls are volatile.
    Acquire,
    /// Release and acquire have device scope.
    Scope,
    /// The block sync of this number, from 0, is left out.
    Sync(u32),
    /// Nobody waits in the barrier of this phase.
    Poll(Phase),
    /// Accesses of this kind to landing places have this order.
    Landing(Landing, Order),
    /// Nobody puts the marker back.
    Clear,
    /// There are so many generations.
    Generations(u32),
    /// The sums that a two-shot pushes are the marker.
    Sum,
}

impl Weakened {
    /// How many generations there are.
    pub fn generations(self) -> u32 {
        if let Weakened::Generations(count) = self { count } else { GENERATIONS as u32 }
    }
}

/// An access to a landing place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Landing {
    /// By the emitter.
    Push,
    /// By the listener, again and again.
    Poll,
    /// By the listener: the marker is put back.
    Clear,
}

/// A cell of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// How peers see the input.
    pub input: InputMode,
    /// What the caller does in between.
    pub usage: Usage,
    /// The protocol.
    pub protocol: Protocol,
    /// Packs of each part, or of the whole where there are no parts.
    pub each: u64,
}

impl Cell {
    /// Packs of each call.
    pub fn packs(&self) -> u64 {
        match self.algorithm {
            Algorithm::OneShot | Algorithm::OneShotPush => self.each,
            Algorithm::TwoShot | Algorithm::TwoShotPush | Algorithm::OnePass | Algorithm::Exchange => {
                self.each * u64::from(RANKS)
            }
        }
    }

    /// Whether peers store to a rank's output.
    pub fn gives(&self) -> bool {
        match self.algorithm {
            Algorithm::OnePass | Algorithm::Exchange => true,
            Algorithm::OneShot | Algorithm::TwoShot | Algorithm::OneShotPush | Algorithm::TwoShotPush => false,
        }
    }

    /// Where a pack of the output lies.
    pub fn output(&self, owner: Rank, pack: u64, call: u32) -> Loc {
        match self.usage {
            Usage::InPlace => self.buffer(owner, pack, call),
            Usage::Rewritten | Usage::InTurn => Loc::from(format!("output of rank {}, pack {pack}", owner.0)),
        }
    }

    /// Elements of each call.
    pub fn elems(&self) -> u64 {
        self.packs() * LANES
    }

    /// The caller's buffer for call `call`, of those that peers read.
    pub fn buffer(&self, owner: Rank, pack: u64, call: u32) -> Loc {
        let buffer = match self.usage {
            Usage::InTurn => call % 2,
            Usage::Rewritten | Usage::InPlace => 0,
        };
        Loc::from(format!("buffer {buffer} of rank {}, pack {pack}", owner.0))
    }

    /// Where a pack lies, if more than its own rank's later work can tell.
    pub fn shared(&self, region: Region, owner: Rank, pack: u64, call: u32) -> Option<Loc> {
        let staged = self.input.staged();
        match region {
            Region::Source => None,
            Region::Input(_) if !staged => Some(self.buffer(owner, pack, call)),
            Region::Input(bank) => {
                let bank = if self.protocol.alternates() { bank.0 } else { 0 };
                Some(Loc::from(format!("staging bank {bank} of rank {}, pack {pack}", owner.0)))
            }
            Region::Scratch => Some(Loc::from(format!("scratch of rank {}, pack {pack}", owner.0))),
            Region::Output if self.gives() => Some(self.output(owner, pack, call)),
            Region::Output => (self.usage == Usage::InPlace && !staged).then(|| self.buffer(owner, pack, call)),
        }
    }
}

impl Display for Usage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Usage::Rewritten => "rewritten",
            Usage::InTurn => "two in turn",
            Usage::InPlace => "in place",
        })
    }
}
