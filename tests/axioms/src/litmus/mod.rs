//! Litmus tests with published verdicts, which show that the checker is the model that it claims to be.
//!
//! Uses `case`, `program`. Sources: the manual ("PTX ISA"), the paper of 2019 ("ASPLOS'19"), the tests published with its
//! sequel of 2022 ("ISCA'22"); "folklore" are the shapes of the literature, with the verdict that the manual's text gives.

mod atomics;
mod coherence;
mod cumulativity;
mod load_buffering;
mod message_passing;
mod store_buffering;

use crate::case::Case;
use crate::event::Scope;
use crate::program::Thread;

/// All published cases.
pub fn cases() -> Vec<Case> {
    [
        message_passing::cases(),
        store_buffering::cases(),
        load_buffering::cases(),
        cumulativity::cases(),
        coherence::cases(),
        atomics::cases(),
    ]
    .concat()
}

const CTA: Scope = Scope::Cta;
const GPU: Scope = Scope::Gpu;
const SYS: Scope = Scope::Sys;

/// How far apart the threads of a test are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Apart {
    /// In one block.
    Threads,
    /// In blocks of one device.
    Blocks,
    /// On devices of their own.
    Devices,
}

impl Apart {
    const ALL: [Apart; 3] = [Apart::Threads, Apart::Blocks, Apart::Devices];

    /// The `n`-th thread.
    fn thread(self, n: u8) -> Thread {
        match self {
            Apart::Threads => Thread::new(0, 0, n),
            Apart::Blocks => Thread::new(0, n, 0),
            Apart::Devices => Thread::new(n, 0, 0),
        }
    }

    /// Whether `scope` bridges it.
    fn within(self, scope: Scope) -> bool {
        match self {
            Apart::Threads => true,
            Apart::Blocks => scope >= Scope::Gpu,
            Apart::Devices => scope >= Scope::Sys,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Apart::Threads => "one block",
            Apart::Blocks => "one device",
            Apart::Devices => "devices",
        }
    }
}

/// A scope, a distance, and their names.
struct Spot {
    scope: Scope,
    apart: Apart,
    name: String,
}

/// Every scope with every distance.
fn everywhere() -> impl Iterator<Item = Spot> {
    let spot = |scope: Scope, apart: Apart| Spot { scope, apart, name: format!(".{scope} in {}", apart.name()) };
    [CTA, GPU, SYS].into_iter().flat_map(move |scope| Apart::ALL.map(|apart| spot(scope, apart)))
}

impl Case {
    /// The same, as the variant at `spot`.
    fn at(self, spot: &Spot) -> Case {
        let reaches = spot.apart.within(spot.scope);
        self.variant(spot.name.clone()).reaching(reaches)
    }
}
