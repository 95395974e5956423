//! The kinds of calls that ranks make together, and how many bytes one takes.

use std::fmt;

/// Most bytes that a rank may give to a call.
pub const MOST_BYTES: usize = 1 << 20;

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The first, which makes the group.
    Join,
    /// [`all_gather`](super::Rendezvous::all_gather).
    AllGather,
    /// [`barrier`](super::Rendezvous::barrier).
    Barrier,
}

impl Call {
    /// All kinds; a kind's place is its number between processes.
    pub(super) const ALL: [Call; 3] = [Call::Join, Call::AllGather, Call::Barrier];

    pub(super) fn code(self) -> u8 {
        match self {
            Call::Join => 0,
            Call::AllGather => 1,
            Call::Barrier => 2,
        }
    }

    pub(super) fn of_code(code: u8) -> Option<Call> {
        Call::ALL.get(usize::from(code)).copied()
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Call::Join => "join",
            Call::AllGather => "all_gather",
            Call::Barrier => "barrier",
        })
    }
}
