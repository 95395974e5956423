//! The kinds of faults, where they befall a rank, and what each has to come to.

use std::time::Duration;

use super::Ground;

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
    /// Its process is killed in its own call, while others are late.
    KilledInCall,
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
    /// Its call is empty, and its next one is not.
    Empty,
    /// Its call is empty, and the next one comes when all others have given up.
    EmptyAlone,
    /// Its call is of another dtype of 16 bits.
    OtherHalf,
    /// Its call has another input mode.
    OtherInput,
    /// Its call is so much shorter that it is planned by another algorithm.
    OtherPlan,
    /// Of two communicators it calls in the other one first, and all wait.
    OtherTurn,
}

impl Fault {
    /// Its name in a report.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Late => "late",
            Fault::Absent => "absent",
            Fault::Dropped => "dropped",
            Fault::Killed => "killed",
            Fault::KilledInCall => "killed in its call",
            Fault::Stopped => "stopped for 2 s, 30 s to wait",
            Fault::StoppedTooLong => "stopped for 2 s, 1 s to wait",
            Fault::Aborts => "aborts",
            Fault::AbortedFromAside => "aborted from aside",
            Fault::Longer => "longer",
            Fault::Shorter => "shorter",
            Fault::OtherDtype => "other dtype",
            Fault::OtherAlgorithm => "other algorithm",
            Fault::OtherGrid => "other grid",
            Fault::OtherOrder => "other order",
            Fault::OneMore => "one call more",
            Fault::Empty => "empty call",
            Fault::EmptyAlone => "empty call, and no other",
            Fault::OtherHalf => "other dtype of 16 bits",
            Fault::OtherInput => "other input mode",
            Fault::OtherPlan => "other plan",
            Fault::OtherTurn => "other communicator first",
        }
    }

    /// How long ranks wait.
    pub fn timeout(self, ground: Ground) -> Duration {
        match self {
            Fault::Absent | Fault::EmptyAlone | Fault::OtherTurn => ground.timeout(),
            Fault::StoppedTooLong => Duration::from_secs(1),
            // The end of a process that has a GPU takes its time, and nobody is to wait for long where it takes too much.
            Fault::Killed | Fault::KilledInCall if ground.is_gpu() => Duration::from_secs(2),
            Fault::Late
            | Fault::Dropped
            | Fault::Killed
            | Fault::KilledInCall
            | Fault::Stopped
            | Fault::Aborts
            | Fault::AbortedFromAside
            | Fault::Longer
            | Fault::Shorter
            | Fault::OtherDtype
            | Fault::OtherAlgorithm
            | Fault::OtherGrid
            | Fault::OtherOrder
            | Fault::OneMore
            | Fault::Empty
            | Fault::OtherHalf
            | Fault::OtherInput
            | Fault::OtherPlan => LONG,
        }
    }

    /// How long it lasts until the last rank can know of it.
    pub fn lasts(self, ground: Ground) -> Duration {
        match self {
            // The victim comes after three times as long, and is told at once.
            Fault::Absent | Fault::EmptyAlone => ground.timeout() * 3,
            Fault::OtherTurn => ground.timeout(),
            Fault::Stopped | Fault::StoppedTooLong => Duration::from_secs(2),
            // Others are late.
            Fault::KilledInCall => self.ends_itself(ground) + Duration::from_millis(200),
            Fault::Killed => self.ends_itself(ground) + Duration::from_millis(60),
            Fault::Late
            | Fault::Dropped
            | Fault::Aborts
            | Fault::AbortedFromAside
            | Fault::Longer
            | Fault::Shorter
            | Fault::OtherDtype
            | Fault::OtherAlgorithm
            | Fault::OtherGrid
            | Fault::OtherOrder
            | Fault::OneMore
            | Fault::Empty
            | Fault::OtherHalf
            | Fault::OtherInput
            | Fault::OtherPlan => Duration::from_millis(60),
        }
    }

    /// How long the wait for a process that is killed may be: where it has a GPU, until the deadline.
    fn ends_itself(self, ground: Ground) -> Duration {
        if ground.is_gpu() { self.timeout(ground) } else { Duration::ZERO }
    }

    /// What of the victim's call is not as the others', if that is the fault.
    pub fn differs_in(self) -> &'static [&'static str] {
        match self {
            Fault::Longer | Fault::Shorter | Fault::OtherOrder | Fault::OneMore | Fault::Empty => &["length"],
            Fault::OtherDtype | Fault::OtherHalf => &["dtype"],
            Fault::OtherAlgorithm => &["algorithm"],
            Fault::OtherGrid => &["grid"],
            Fault::OtherInput => &["input mode"],
            Fault::OtherPlan => &["length", "algorithm"],
            Fault::Late
            | Fault::Absent
            | Fault::Dropped
            | Fault::Killed
            | Fault::KilledInCall
            | Fault::Stopped
            | Fault::StoppedTooLong
            | Fault::Aborts
            | Fault::AbortedFromAside
            | Fault::EmptyAlone
            | Fault::OtherTurn => &[],
        }
    }

    /// Whether the victim comes when others have given up.
    pub fn comes_too_late(self) -> bool {
        matches!(self, Fault::Absent | Fault::EmptyAlone)
    }

    /// Whether the victim's process is killed.
    pub fn kills(self) -> bool {
        matches!(self, Fault::Killed | Fault::KilledInCall)
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
