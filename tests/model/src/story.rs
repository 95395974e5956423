//! The steps of a failing execution, as lines that a person can follow.

use std::fmt::{self, Display, Formatter};

use allfold_kernels::protocol::abi::{Phase, Rank};
use allfold_kernels::protocol::epoch::Epoch;
use allfold_kernels::protocol::machine::Pack;

use serde::{Deserialize, Serialize};

use crate::program::{Area, Program, Usage};
use crate::stream::digits;
use crate::trace::{DataStep, Failure, Step, What, Who};
use tell::Teller;

mod tell;

/// What happened, line by line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Story {
    /// The steps, numbered from 1 when printed.
    pub lines: Vec<String>,
    /// What came of it.
    pub end: String,
    /// All of it in half a sentence.
    pub short: String,
}

impl Display for Story {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, line) in self.lines.iter().enumerate() {
            writeln!(f, "{:>2}. {line}", index + 1)?;
        }
        writeln!(f, "    {}", self.end)
    }
}

impl Story {
    /// Tells `steps`, which ended in `failure`.
    pub fn new(program: &Program, failure: &Failure, steps: &[Step]) -> Story {
        let lines = lines(program, failure, steps);
        let blamed = blamed(program, failure, &lines);
        let teller = Teller { program, steps, lines, blamed };
        Story { lines: teller.told(), end: teller.end(failure), short: teller.short(failure) }
    }
}

/// Steps of one thread that go into one line.
struct Line {
    who: Who,
    what: What,
    packs: Vec<u32>,
    /// The last step in it.
    last: usize,
}

/// The steps that matter, those that belong together in one line, up to the cause of the failure.
fn lines(program: &Program, failure: &Failure, steps: &[Step]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for (index, &Step { who, what }) in steps.iter().enumerate() {
        let fails = index + 1 == steps.len() && *failure == Failure::Race;
        let matters = match what {
            What::Data(data) => data.area.shared() && (data.stores || data.owner != who.rank),
            What::Flag(flag) => {
                let wanted = match flag.phase {
                    Phase::Start | Phase::Middle | Phase::End => program.epoch(who.call()),
                    Phase::Landing => Epoch(program.cursor_after(who.call() - 1).serial),
                };
                flag.tells || flag.epoch.0.wrapping_sub(wanted.0) as i64 >= 0
            }
            What::Sync => program.shape.threads > 1,
            What::Begin => true,
            What::EpochWord { .. } | What::Cursor { .. } => {
                steps.last().is_some_and(|last| place(last) == place(&Step { who, what }))
            }
        };
        if !fails && !matters {
            continue;
        }
        let packs = if let What::Data(data) = what { vec![data.pack] } else { vec![] };
        match lines.last_mut() {
            Some(line) if !fails && line.who == who && together(line.what, what) => {
                line.packs.extend(packs);
                line.last = index;
            }
            Some(_) | None => lines.push(Line { who, what, packs, last: index }),
        }
    }
    if let Failure::WrongSum { .. } = failure {
        let end = last_wrong_load(program, failure, &lines).map_or(lines.len(), |wrong| wrong + 1);
        lines.truncate(end);
    }
    lines
}

/// The last load of the rank with the wrong sum, in that call, that gave something else than it needs.
fn last_wrong_load(program: &Program, failure: &Failure, lines: &[Line]) -> Option<usize> {
    let &Failure::WrongSum { rank, call, .. } = failure else { return None };
    let wrong = |line: &Line| line.who.rank == rank && line.who.call() == call && line.needs_another(program);
    lines.iter().rposition(wrong)
}

/// The line that is to blame: the last, or where that is a load of a sum that was wrong already, the first load of any
/// rank in that call that gave something else than it needs.
fn blamed(program: &Program, failure: &Failure, lines: &[Line]) -> Option<usize> {
    let last = lines.len().checked_sub(1)?;
    let &Failure::WrongSum { call, .. } = failure else { return Some(last) };
    if !lines[last].needs_another(program) || !lines[last].loads_mixed_sum(program) {
        return Some(last);
    }
    let first = lines.iter().position(|line| line.who.call() == call && line.needs_another(program));
    Some(first.unwrap_or(last))
}

/// Whether two steps of a thread in a row go into one line.
fn together(line: What, step: What) -> bool {
    let sort = |what| {
        let What::Data(data) = what else { return None };
        Some((data.stores, data.area, data.owner, data.value.map(|Pack([call, ..])| call)))
    };
    sort(line).is_some() && sort(line) == sort(step)
}

impl Line {
    /// Whether it is a load that gave something that is not of the reader's call.
    fn needs_another(&self, program: &Program) -> bool {
        let What::Data(DataStep { stores: false, area, owner, value: Some(value), .. }) = self.what else {
            return false;
        };
        calls(program, area, owner, value).iter().any(|&call| call != self.who.call())
    }
}

impl Line {
    /// Whether it is a load of a sum of inputs of different calls.
    fn loads_mixed_sum(&self, program: &Program) -> bool {
        let What::Data(DataStep { stores: false, area, owner, value: Some(value), .. }) = self.what else {
            return false;
        };
        let calls = calls(program, area, owner, value);
        calls.iter().any(|call| *call != calls[0])
    }
}

/// The numbers of the calls that a value of `owner`'s `area` is made of. One number: it is one rank's input.
fn calls(program: &Program, area: Area, owner: Rank, value: Pack) -> Vec<u32> {
    let digits = digits(value, program.shape.ranks);
    let of_others = digits.iter().enumerate().any(|(rank, &digit)| rank != owner.0 as usize && digit > 0);
    match (area, program.usage) {
        // In place, an input becomes a sum.
        (Area::Buffer(_), Usage::InPlace) if of_others => digits,
        (Area::Scratch, _) => digits,
        (Area::Source | Area::Buffer(_) | Area::Staging(_) | Area::Output, _) => vec![digits[owner.0 as usize]],
    }
}

/// What a step accesses of a rank's memory.
#[derive(PartialEq, Eq)]
enum Part {
    Data(Area),
    EpochWords,
    Cursors,
}

/// Where a step accesses data, an epoch word or a cursor.
fn place(step: &Step) -> Option<(Rank, Part, u32)> {
    match step.what {
        What::Data(data) => Some((data.owner, Part::Data(data.area), data.pack)),
        What::EpochWord { block, .. } => Some((step.who.rank, Part::EpochWords, block)),
        What::Cursor { block, .. } => Some((step.who.rank, Part::Cursors, block)),
        What::Begin | What::Flag(_) | What::Sync => None,
    }
}

/// Whether a step stores there.
fn stores(step: &Step) -> bool {
    match step.what {
        What::Data(data) => data.stores,
        What::EpochWord { stored, .. } => stored.is_some(),
        What::Cursor { stored, .. } => stored.is_some(),
        What::Begin | What::Flag(_) | What::Sync => false,
    }
}
