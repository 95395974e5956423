//! The cores of our own barriers and protocols, as events. Uses `case`, `program`.
//!
//! Each mirrors a piece of `kernels-gpu/src/protocol`, cut down to what one outcome can depend on: the accesses to one
//! location of data, the flags between two ranks, the block syncs, and the kernels of the ranks' streams. A device is a
//! rank. Kernel 0 of a stream is the caller's or a copy; kernel 1 is call `e`, kernel 2 is call `e + 1`, and so on; a flag
//! holds 1 for `e`, 2 for `e + 1`. Memory is 0 at first, so 0 stands for what was there before.

mod copy_in;
mod end;
mod launch;
mod marker;
mod middle;
mod parity;
mod poll;
mod scratch;
mod start;

use crate::assumption::Assumption;
use crate::case::Case;
use crate::event::{FenceKind, Loc, Order, Scope, Until};
use crate::program::Thread;

use Order::{Acquire, Relaxed, Release, Volatile, Weak};

/// A part of the tables: a question about one protocol, its cases, and what they add up to.
pub struct Section {
    /// The title.
    pub title: &'static str,
    /// What is modelled, and what bad thing is asked for.
    pub asks: &'static str,
    /// The cases.
    pub cases: Vec<Case>,
    /// The answer in words.
    pub answer: &'static str,
}

/// All sections.
pub fn sections() -> Vec<Section> {
    vec![
        start::section(),
        launch::section(),
        copy_in::section(),
        middle::section(),
        middle::in_place(),
        end::section(),
        parity::section(),
        parity::flags(),
        scratch::section(),
        poll::section(),
        poll::many(),
        marker::words(),
        marker::clearing(),
        marker::epochs(),
    ]
}

const GPU: Scope = Scope::Gpu;
const SYS: Scope = Scope::Sys;
const PUBLISHES: Assumption = Assumption::KernelEndPublishes;
const ORDERS: Assumption = Assumption::PollOrdersLoads;
const LOADS_DONE: Assumption = Assumption::LoadsDoneBeforeBarrier;

/// How a flag is stored.
#[derive(Clone, Copy)]
enum Announce {
    As(Order),
    FenceThenRelaxed,
}

/// How a flag is waited for.
#[derive(Clone, Copy)]
enum Await {
    As(Order),
    RelaxedThenAcquire,
    ThenFence(Order),
}

/// A way to announce and a way to wait, by name.
type Form = (&'static str, Announce, Await);

const RELEASE_ACQUIRE: Form = ("release / acquire", Announce::As(Release(SYS)), Await::As(Acquire(SYS)));
const VOLATILE: Form = ("volatile / volatile", Announce::As(Volatile), Await::As(Volatile));
/// Of release and acquire, what is too weak.
const TOO_WEAK: [Form; 7] = [
    VOLATILE,
    ("release / volatile", Announce::As(Release(SYS)), Await::As(Volatile)),
    ("volatile / acquire", Announce::As(Volatile), Await::As(Acquire(SYS))),
    ("relaxed / relaxed", Announce::As(Relaxed(SYS)), Await::As(Relaxed(SYS))),
    ("release.gpu / acquire.sys", Announce::As(Release(GPU)), Await::As(Acquire(SYS))),
    ("release.sys / acquire.gpu", Announce::As(Release(SYS)), Await::As(Acquire(GPU))),
    ("release.gpu / acquire.gpu", Announce::As(Release(GPU)), Await::As(Acquire(GPU))),
];

/// Thread `thread` of block `block` of kernel `kernel` of rank `rank`.
fn at(rank: u8, kernel: u8, block: u8, thread: u8) -> Thread {
    Thread::in_kernel(rank, kernel, block, thread)
}

impl Thread {
    fn announce(self, how: Announce, flag: &str, epoch: u32) -> Thread {
        match how {
            Announce::As(order) => self.st(order, flag, epoch),
            Announce::FenceThenRelaxed => self.fence(FenceKind::AcqRel, SYS).st(Relaxed(SYS), flag, epoch),
        }
    }

    fn wait_for(self, how: Await, flag: &str, epoch: u32) -> Thread {
        let until = Until::AtLeast(epoch);
        match how {
            Await::As(order) => self.poll(order, flag, until),
            Await::RelaxedThenAcquire => {
                let again = format!("{flag} again");
                self.poll(Relaxed(SYS), flag, until).ld(Acquire(SYS), again, flag)
            }
            Await::ThenFence(order) => self.poll(order, flag, until).fence(FenceKind::AcqRel, SYS),
        }
    }

    /// An ordinary load of data.
    fn read(self, into: &str, loc: impl Into<Loc>) -> Thread {
        self.ld(Weak, into, loc)
    }

    /// An ordinary store of data.
    fn write(self, loc: impl Into<Loc>, value: u32) -> Thread {
        self.st(Weak, loc, value)
    }
}
