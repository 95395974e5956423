//! The kinds of faults, where they befall a rank, and what each has to come to.

use std::time::Duration;

/// How long ranks wait in a cell whose fault is that somebody does not come.
pub const TIMEOUT: Duration = Duration::from_millis(400);
/// How long in all others: nobody is to find out by waiting.
pub const LONG: Duration = Duration::from_secs(30);
/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The victim comes late, and not too late.
    Late,
    /// It does not come until all others have given up; then it comes.
    Absent,
    /// Its communicator is dropped.
    Dropped,
    /// Its process is killed. Where it is a thread, see [`Fault::Dropped`].
    Killed,
    /// Its process is stopped for two seconds, and others wait longer than that.
    Stopped,
    /// The same, and others do not wait so long.
    StoppedTooLong,
    /// It asks for an end in place of a call.
    Aborts,
    /// Another thread of its asks for an end while it waits for the others.
    AbortedFromAside,
    /// Its call has one element more.
    Longer,
    /// Its call has a few elements less.
    Shorter,
    /// Its call is of another dtype of the same size.
    OtherDtype,
    /// Its call is done by another algorithm.
    OtherAlgorithm,
    /// Its call has another grid.
    OtherGrid,
    /// It makes the next two calls in the other order.
    OtherOrder,
    /// It takes a second sum in between.
    OneMore,
}

impl Fault {
    /// How long ranks wait.
    pub fn timeout(self) -> Duration {
        match self {
            Fault::Absent => TIMEOUT,
            Fault::StoppedTooLong => Duration::from_secs(1),
            Fault::Late
            | Fault::Dropped
            | Fault::Killed
            | Fault::Stopped
            | Fault::Aborts
            | Fault::AbortedFromAside
            | Fault::Longer
            | Fault::Shorter
            | Fault::OtherDtype
            | Fault::OtherAlgorithm
            | Fault::OtherGrid
            | Fault::OtherOrder
            | Fault::OneMore => LONG,
        }
    }

    /// How long it lasts until the last rank can know of it.
    pub fn lasts(self) -> Duration {
        match self {
            // The victim comes after three times as long, and is told at once.
            Fault::Absent => TIMEOUT * 3,
            Fault::Stopped | Fault::StoppedTooLong => Duration::from_secs(2),
            Fault::Late
            | Fault::Dropped
            | Fault::Killed
            | Fault::Aborts
            | Fault::AbortedFromAside
            | Fault::Longer
            | Fault::Shorter
            | Fault::OtherDtype
            | Fault::OtherAlgorithm
            | Fault::OtherGrid
            | Fault::OtherOrder
            | Fault::OneMore => Duration::from_millis(60),
        }
    }

    /// What of the victim's call is not as the others', if that is the fault.
    pub fn differs_in(self) -> Option<&'static str> {
        match self {
            Fault::Longer | Fault::Shorter | Fault::OtherOrder | Fault::OneMore => Some("length"),
            Fault::OtherDtype => Some("dtype"),
            Fault::OtherAlgorithm => Some("algorithm"),
            Fault::OtherGrid => Some("grid"),
            Fault::Late
            | Fault::Absent
            | Fault::Dropped
            | Fault::Killed
            | Fault::Stopped
            | Fault::StoppedTooLong
            | Fault::Aborts
            | Fault::AbortedFromAside => None,
        }
    }
}

/// Where in the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before any call.
    First,
    /// Between two calls.
    Between,
    /// After so many that the banks and generations of a communicator have been used several times.
    Many,
    /// While the others are in a call that has begun.
    Within,
}

impl Phase {
    /// Good calls before the fault.
    pub const fn calls(self) -> u32 {
        match self {
            Phase::First => 0,
            Phase::Between | Phase::Within => 2,
            Phase::Many => 19,
        }
    }
}
