//! Calls that are made together, and in which order their inputs are written and their results checked. Pure.

use allfold::{CallOptions, Dtype, MAX_RANKS, Plan};

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub dtype: Dtype,
    /// Elements of each rank.
    pub elems: u64,
    /// What is asked of the library.
    pub options: CallOptions,
    /// What the library makes of it.
    pub plan: Plan,
    /// Where in its memory each rank has its input.
    pub input: Region,
    /// And its output; the same: the call is in place.
    pub output: Region,
    /// Elements by which the input and the output of each rank are off alignment; in place the same.
    pub shifts: [[u8; 2]; MAX_RANKS],
    /// How long the host sleeps before it, where it is not captured.
    pub pause_micros: u64,
}

impl Call {
    pub fn in_place(&self) -> bool {
        self.input == self.output
    }

    pub fn is_misaligned(&self) -> bool {
        self.shifts.as_flattened().iter().any(|&shift| shift != 0)
    }

    /// Bytes by which the input and the output of each rank are off alignment.
    pub fn offsets_bytes(&self, world: usize) -> Vec<[usize; 2]> {
        let bytes = |shift: u8| usize::from(shift) * self.dtype.bytes();
        self.shifts.iter().take(world).map(|shifts| shifts.map(bytes)).collect()
    }
}

/// A half of a rank's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    First,
    Second,
}

impl Region {
    pub fn other(self) -> Region {
        match self {
            Region::First => Region::Second,
            Region::Second => Region::First,
        }
    }
}

/// Calls that are made together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub calls: Vec<Call>,
    pub way: Way,
    /// Which of each rank's streams they run on.
    pub streams: usize,
    pub late: Option<Late>,
}

/// How a batch is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One call after the other.
    Eager,
    /// Captured on some of the streams, and replayed.
    Graph { captured_on: usize, replays: u64 },
}

/// A rank that comes late to a batch: its stream has copies before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    pub rank: usize,
    pub copies: u32,
}

/// What is done for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Its input is written.
    Fill,
    Reduce,
    /// Its result is overwritten: what the check has to find.
    Spoil,
    Check,
}

impl Batch {
    /// How often each of its calls is made.
    pub fn rounds(&self) -> u64 {
        match self.way {
            Way::Eager => 1,
            Way::Graph { replays, .. } => replays,
        }
    }

    /// Calls that are made by it.
    pub fn made(&self) -> u64 {
        self.calls.len() as u64 * self.rounds()
    }

    /// Round and place of its call number `number`, from 0.
    pub fn place(&self, number: u64) -> Option<(u64, usize)> {
        let calls = self.calls.len() as u64;
        (number < self.made()).then(|| (number / calls, (number % calls) as usize))
    }

    /// One round of it. A check asks for the last call's number, so it comes before the next call; but the next input is
    /// written before it, unless that would overwrite what is to be checked: a peer that still reads meets new stamps.
    pub fn steps<'b>(&'b self, spoiled: Option<usize>) -> impl Iterator<Item = (Step, &'b Call)> {
        let first = self.calls.first().map(|call| (Step::Fill, call));
        let of_call = move |(at, call): (usize, &'b Call)| {
            let fill = self.calls.get(at + 1).map(|next| (Step::Fill, next));
            let early = fill.filter(|(_, next)| next.input != call.output);
            let late = fill.filter(|_| early.is_none());
            let spoil = (spoiled == Some(at)).then_some((Step::Spoil, call));
            let steps = [Some((Step::Reduce, call)), spoil, early, Some((Step::Check, call)), late];
            steps.into_iter().flatten()
        };
        first.into_iter().chain(self.calls.iter().enumerate().flat_map(of_call))
    }
}

#[cfg(test)]
mod tests {
    use allfold::{Algorithm, InputMode, Preset};

    use super::*;

    fn call(input: Region, output: Region) -> Call {
        let protocol = Preset::Allfold.protocol(Algorithm::OnePass, InputMode::Registered).expect("it has one");
        let plan =
            Plan { algorithm: Algorithm::OnePass, input: InputMode::Registered, protocol, blocks: 1, threads: 1 };
        let (options, shifts) = (CallOptions::default(), [[0; 2]; MAX_RANKS]);
        Call { dtype: Dtype::F32, elems: 9, options, plan, input, output, shifts, pause_micros: 0 }
    }

    fn batch(calls: Vec<Call>, way: Way) -> Batch {
        Batch { calls, way, streams: 0, late: None }
    }

    #[test]
    fn inputs_are_written_early_but_never_over_what_is_to_be_checked() {
        use Region::{First, Second};
        use Step::{Check, Fill, Reduce, Spoil};
        let calls = vec![call(First, Second), call(First, First), call(First, Second)];
        let batch = batch(calls, Way::Eager);
        let steps: Vec<_> = batch.steps(Some(1)).map(|(step, call)| (step, call.input, call.output)).collect();
        let (out, own) = (|step| (step, First, Second), |step| (step, First, First));
        let expected = [
            out(Fill),
            out(Reduce),
            own(Fill),
            out(Check),
            own(Reduce),
            own(Spoil),
            own(Check),
            out(Fill),
            out(Reduce),
        ];
        assert_eq!(steps, [&expected[..], &[out(Check)]].concat());
        assert_eq!(batch.steps(None).count(), 9);
    }

    #[test]
    fn a_number_is_a_round_and_a_place() {
        let calls = || vec![call(Region::First, Region::Second); 3];
        let graph = batch(calls(), Way::Graph { captured_on: 1, replays: 4 });
        assert_eq!((graph.made(), graph.place(0), graph.place(7)), (12, Some((0, 0)), Some((2, 1))));
        assert_eq!((graph.place(11), graph.place(12)), (Some((3, 2)), None));
        assert_eq!((batch(calls(), Way::Eager).made(), batch(calls(), Way::Eager).place(3)), (3, None));
    }
}
