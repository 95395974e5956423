//! What a call is, as its rank tells the others: so that ranks which make different calls find out, and add up nothing.
//!
//! A rank tells each peer its [`Signature`] in the call itself, and a block that compares what peers tell with its own does so before it
//! waits for anything else: what it waits for may not come in another call. So in a call with barriers each block has compared before it
//! reads or stores anything whose place depends on it; in a push block 0 compares, for all, before it ends. Both words carry the number
//! of the call, so they are their own flag: nothing need be ordered, and a word of an earlier call is none of this one.

use core::hint::cold_path;

use super::abi::{Algorithm, Dtype, InputMode, Phase, Rank, ReduceOp};
use super::epoch::Epoch;
use super::machine::Machine;
use super::status::Ranks;
use super::wait::{Left, Wait};

/// A call, in two words whose high 16 bits are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signature(pub [u64; 2]);

/// Bits of a word that say of which call it is.
const TAG_BITS: u32 = 16;
const BODY: u64 = u64::MAX >> TAG_BITS;

/// What is done in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Collective {
    /// All terms made one, on every rank.
    AllReduce,
}

/// All of a call that must be the same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// What is done.
    pub collective: Collective,
    /// Elements, of which a signature keeps the low 48 bits.
    pub elems: u64,
    /// Element type.
    pub dtype: Dtype,
    /// What is done to the terms.
    pub op: ReduceOp,
    /// How.
    pub algorithm: Algorithm,
    /// How peers see the input.
    pub input: InputMode,
    /// Blocks of the launch.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// The protocol, as [`Protocol::encode`](super::spec::Protocol::encode) has it.
    pub protocol: u32,
}

impl Call {
    /// Its signature.
    pub const fn signature(&self) -> Signature {
        let mut word = self.collective as u64;
        word = word << 3 | self.op as u64;
        word = word << 4 | self.dtype as u64;
        word = word << 4 | self.algorithm as u64;
        word = word << 2 | self.input as u64;
        word = word << 9 | (self.blocks & 0x1ff) as u64;
        // At least 1, so that the word is never 0.
        word = word << 11 | (self.threads & 0x7ff) as u64;
        word = word << 9 | (self.protocol & 0x1ff) as u64;
        Signature([self.elems & BODY, word])
    }

    /// The call of a signature; `None`: [`Call::signature`] cannot have made it.
    #[inline]
    pub fn of(Signature([elems, word]): Signature) -> Option<Call> {
        let field = |from: u32, bits: u32| (word >> from) as u32 & ((1 << bits) - 1);
        let call = Call {
            collective: Collective::AllReduce,
            elems,
            dtype: *Dtype::ALL.get(field(35, 4) as usize)?,
            op: *ReduceOp::ALL.get(field(39, 3) as usize)?,
            algorithm: *Algorithm::ALL.get(field(31, 4) as usize)?,
            input: *InputMode::ALL.get(field(29, 2) as usize)?,
            blocks: field(20, 9),
            threads: field(9, 11),
            protocol: field(0, 9),
        };
        (call.signature() == Signature([elems, word])).then_some(call)
    }
}

impl Signature {
    /// Of a call that is not to be compared.
    pub const NONE: Signature = Signature([0; 2]);

    /// Whether there is anything to compare.
    #[inline(always)]
    const fn is_some(self) -> bool {
        self.0[1] != 0
    }

    /// The words, of the call of `epoch`.
    #[inline(always)]
    const fn told(self, epoch: Epoch) -> [u64; 2] {
        let tag = epoch.0 << (u64::BITS - TAG_BITS);
        [self.0[0] | tag, self.0[1] | tag]
    }

    /// What a rank has told in the call of `epoch`; `None`: these words are of another call.
    pub const fn heard(words: [u64; 2], epoch: Epoch) -> Option<Signature> {
        const fn is_of(word: u64, epoch: Epoch) -> bool {
            (word ^ epoch.0 << (u64::BITS - TAG_BITS)) >> (u64::BITS - TAG_BITS) == 0
        }
        if is_of(words[0], epoch) && is_of(words[1], epoch) {
            Some(Signature([words[0] & BODY, words[1] & BODY]))
        } else {
            None
        }
    }
}

/// The words of a rank that has told nothing since the call of `last`: they are of no call that is to come soon.
pub const fn untold(last: u64) -> u64 {
    Signature::NONE.told(Epoch(last))[0]
}

/// Tells all peers, and the own host, what this rank's call is. Thread `t` of block 0 tells rank `t`.
#[inline(always)]
pub(super) fn tell<M: Machine, const W: usize>(m: &M, epoch: Epoch) {
    if W == 1 || m.block() != 0 || !m.signature().is_some() {
        return;
    }
    let mut listener = m.thread();
    while listener < W as u32 {
        tell_one(m, epoch, Rank(listener));
        listener += m.threads();
    }
}

/// Tells `listener` what this rank's call is.
#[inline(always)]
pub(super) fn tell_one<M: Machine>(m: &M, epoch: Epoch, listener: Rank) {
    // ORDER: pairs with the load in `compare`, by the number of the call in each word alone. It publishes nothing, so nothing
    // stronger is needed; weaker than relaxed at system scope is not allowed where another GPU polls.
    m.tell_call(listener, epoch.bank(), m.signature().told(epoch));
}

/// Waits for what peers tell, each thread of this block for the ranks that [`tell`] gives it, and compares.
#[inline(always)]
pub(super) fn compare<M: Machine, const W: usize>(m: &M, phase: Phase, epoch: Epoch) -> Result<(), Left> {
    let signature = m.signature();
    if W == 1 || !signature.is_some() {
        return Ok(());
    }
    let own = signature.told(epoch);
    let mut peer = m.thread();
    while peer < W as u32 {
        if peer != m.rank().0 {
            told_by(m, phase, Rank(peer), epoch, own)?;
        }
        peer += m.threads();
    }
    Ok(())
}

#[inline(always)]
fn told_by<M: Machine>(m: &M, phase: Phase, peer: Rank, epoch: Epoch, own: [u64; 2]) -> Result<(), Left> {
    let mut wait = Wait::new();
    loop {
        // ORDER: pairs with the store in `tell`; see there.
        let told = m.call_told(peer, epoch.bank());
        if told == own {
            return Ok(());
        }
        cold_path();
        if Signature::heard(told, epoch).is_some() {
            return Err(wait.left(phase, Ranks::of(peer)));
        }
        if !wait.goes_on(m, || Ranks::of(peer)) {
            return Err(wait.left(phase, Ranks::of(peer)));
        }
    }
}

/// What peers have told of a call so far.
pub(super) struct Heard {
    /// Those that make another call. Data of theirs may never come.
    pub(super) differ: Ranks,
    /// Those that have told nothing yet.
    pub(super) silent: Ranks,
}

/// What peers have told of the call of `epoch`; nothing of any, where calls are not compared.
#[inline(always)]
pub(super) fn hear<M: Machine>(m: &M, epoch: Epoch) -> Heard {
    let own = m.signature();
    let mut heard = Heard { differ: Ranks::NONE, silent: Ranks::NONE };
    let mut peer = 0;
    while own.is_some() && peer < m.world() {
        if peer != m.rank().0 {
            // ORDER: as in `told_by`.
            match Signature::heard(m.call_told(Rank(peer), epoch.bank()), epoch) {
                Some(theirs) if theirs == own => {}
                Some(_) => heard.differ = heard.differ.with(Rank(peer)),
                None => heard.silent = heard.silent.with(Rank(peer)),
            }
        }
        peer += m.step(1);
    }
    heard
}
