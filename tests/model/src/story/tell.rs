//! The words for the lines of a story.

use allfold_kernels::protocol::abi::{Phase, Rank};
use allfold_kernels::protocol::machine::Pack;
use allfold_kernels::protocol::push::Cursor;
use allfold_kernels::protocol::spec::Order;

use super::{Line, calls, place, stores};
use crate::program::{Area, Launch, Program, Usage};
use crate::stream::digits;
use crate::trace::{DataStep, Failure, FlagStep, Step, What, Who};

/// Who has the steps, and the lines made of them.
pub struct Teller<'a> {
    pub program: &'a Program,
    pub steps: &'a [Step],
    pub lines: Vec<Line>,
    /// The line that is to blame.
    pub blamed: Option<usize>,
}

impl Teller<'_> {
    /// Every line.
    pub fn told(&self) -> Vec<String> {
        self.lines.iter().map(|line| format!("{}: {}", self.who(line.who), self.what(line))).collect()
    }

    fn who(&self, who: Who) -> String {
        let shape = self.program.shape;
        let Rank(rank) = who.rank;
        match (who.thread, self.program.launch) {
            (None, _) => format!("rank {rank}, before its next kernel"),
            (Some(thread), Launch::Early(_)) => format!("rank {rank} kernel {}", thread.call),
            (Some(thread), Launch::InOrder) if shape.blocks > 1 => format!("rank {rank} block {}", thread.block),
            (Some(thread), Launch::InOrder) if shape.threads > 1 => format!("rank {rank} thread {}", thread.thread),
            (Some(_), Launch::InOrder) => format!("rank {rank}"),
        }
    }

    fn what(&self, line: &Line) -> String {
        match line.what {
            What::Begin => format!("begins call {}", line.who.call()),
            What::Flag(FlagStep { tells, peer: Rank(peer), phase, epoch, order }) => {
                let signal = format!("\"{} {}\"", phase_name(phase), epoch.0);
                match (tells, order) {
                    (true, Order::Volatile) => format!("tells rank {peer} {signal} (volatile)"),
                    (true, Order::ReleaseAcquire) => format!("tells rank {peer} {signal} (release)"),
                    (false, Order::Volatile) => format!("sees rank {peer}'s {signal} (volatile)"),
                    (false, Order::ReleaseAcquire) => format!("sees rank {peer}'s {signal} (acquire)"),
                }
            }
            What::Sync => "block sync".to_string(),
            What::Data(data) => {
                let packs = packs(&line.packs);
                let area = self.area(data.area);
                let value = data
                    .value
                    .map_or_else(String::new, |value| format!(": {}", self.value(data.area, data.owner, value)));
                if data.stores {
                    format!("stores {packs} of its {area}{value}")
                } else {
                    format!("reads {packs} of rank {}'s {area}{value}{}", data.owner.0, self.comment(line, data))
                }
            }
            What::EpochWord { block, stored: None } => format!("reads the epoch word of block {block}"),
            What::EpochWord { block, stored: Some(epoch) } => {
                format!("moves the epoch word of block {block} to {}", epoch.0)
            }
            What::Cursor { block, stored: None } => format!("reads the cursor of block {block}"),
            What::Cursor { block, stored: Some(Cursor { serial, used, .. }) } => {
                format!("moves the cursor of block {block} to pack {used} of generation {serial}")
            }
        }
    }

    /// What is wrong with what a load gave.
    fn comment(&self, line: &Line, load: DataStep) -> String {
        if !line.needs_another(self.program) {
            return String::new();
        }
        let needed = |other: &Line| {
            let What::Data(DataStep { stores: true, area, owner, value: Some(value), .. }) = other.what else {
                return false;
            };
            (area, owner) == (load.area, load.owner)
                && other.last < line.last
                && line.packs.iter().all(|pack| other.packs.contains(pack))
                && calls(self.program, area, owner, value).iter().all(|&call| call == line.who.call())
        };
        match self.lines.iter().rposition(needed) {
            Some(at) if self.gives_older(line) => {
                format!(", although step {} has stored what call {} needs", at + 1, line.who.call())
            }
            Some(_) | None => format!(", not what call {} needs", line.who.call()),
        }
    }

    /// Whether a load gave something of an earlier call than the reader's.
    fn gives_older(&self, line: &Line) -> bool {
        let What::Data(DataStep { area, owner, value: Some(value), .. }) = line.what else { return false };
        calls(self.program, area, owner, value).iter().any(|&call| call < line.who.call())
    }

    fn value(&self, area: Area, owner: Rank, value: Pack) -> String {
        match calls(self.program, area, owner, value).as_slice() {
            [0] => "nothing yet".to_string(),
            [call] => format!("the input of call {call}"),
            [first, rest @ ..] if rest.iter().any(|call| call != first) => "a mixed sum".to_string(),
            [0, ..] => "nothing yet".to_string(),
            [call, ..] => format!("the sum of call {call}"),
            [] => String::new(),
        }
    }

    fn area(&self, area: Area) -> String {
        let alternates = self.program.calls.iter().any(|call| call.protocol.alternates());
        match (area, self.program.usage) {
            (Area::Source, _) => "input".to_string(),
            (Area::Buffer(buffer), Usage::InTurn | Usage::Chained) => format!("registered buffer {buffer}"),
            (Area::Buffer(_), Usage::Rewritten | Usage::InPlace) => "registered buffer".to_string(),
            (Area::Staging(bank), _) if alternates => format!("staging bank {bank}"),
            (Area::Staging(_), _) => "staging buffer".to_string(),
            (Area::Scratch, _) => "scratch".to_string(),
            (Area::Output, _) => "output".to_string(),
        }
    }

    /// What came of it.
    pub fn end(&self, failure: &Failure) -> String {
        match failure {
            Failure::Race => {
                let before = self.conflict().and_then(|step| {
                    self.lines.iter().position(|line| line.last >= step && line.who == self.steps[step].who)
                });
                let after = before.map_or_else(|| "an earlier access".to_string(), |at| format!("step {}", at + 1));
                if self.steps.last().is_some_and(stores) {
                    format!("Nothing orders this store after {after}, which may get the new value in place of its own.")
                } else {
                    format!("Nothing orders this read after {after}: it may get what was there before.")
                }
            }
            Failure::WrongSum { rank: Rank(rank), call, pack, got } => {
                format!("Rank {rank}'s sum of call {call}, pack {pack}, has in it {}.", self.wrong_parts(*call, *got))
            }
            Failure::Hang { waits, missing, phase } => {
                format!("Rank {} waits for rank {}'s \"{}\" for ever.", waits.0, missing.0, phase_name(*phase))
            }
            Failure::Broken(said) => format!("The model broke: {said}"),
        }
    }

    fn wrong_parts(&self, call: u32, sum: Pack) -> String {
        let digits = digits(sum, self.program.shape.ranks);
        let wrong = digits.into_iter().enumerate().filter(|&(_, digit)| digit != call);
        let parts: Vec<_> = wrong
            .map(|(rank, digit)| match (digit, self.program.usage) {
                (0, _) => format!("nothing of rank {rank}"),
                (2, Usage::InPlace) if call == 1 => format!("rank {rank}'s input twice"),
                (digit, _) => format!("rank {rank}'s input of call {digit}"),
            })
            .collect();
        if parts.is_empty() { "parts of another pack".to_string() } else { parts.join(" and ") }
    }

    /// All of it in half a sentence.
    pub fn short(&self, failure: &Failure) -> String {
        let Some(line) = self.blamed.map(|blamed| &self.lines[blamed]) else { return self.end(failure) };
        let who = self.who(line.who).replace("before its next kernel", "before its next kernel,");
        let what = self.what(line);
        let what = what.split(':').next().unwrap_or_default();
        match failure {
            Failure::Race => {
                let with = self.conflict().map(|step| &self.steps[step]);
                let other = with.map_or_else(String::new, |step| format!(" of rank {}", step.who.rank.0));
                let access = if with.is_some_and(stores) { "store" } else { "read" };
                format!("{who} {what}, not ordered after the {access}{other}")
            }
            Failure::WrongSum { .. } if line.needs_another(self.program) => {
                let late = if self.gives_older(line) { "early" } else { "late" };
                format!("{who} {what} too {late}")
            }
            Failure::WrongSum { .. } | Failure::Hang { .. } | Failure::Broken(_) => self.end(failure),
        }
    }

    /// The latest earlier step of another thread at the place of the last, where one of the two stores.
    fn conflict(&self) -> Option<usize> {
        let (last, earlier) = self.steps.split_last()?;
        let conflicts =
            |step: &Step| step.who != last.who && place(step) == place(last) && (stores(step) || stores(last));
        earlier.iter().rposition(conflicts)
    }
}

fn packs(packs: &[u32]) -> String {
    format!("{} {}", if packs.len() == 1 { "pack" } else { "packs" }, listed(packs))
}

fn listed(numbers: &[u32]) -> String {
    let numbers: Vec<_> = numbers.iter().map(u32::to_string).collect();
    match numbers.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        Some(_) | None => numbers.join(""),
    }
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Start => "start",
        Phase::Middle => "middle",
        Phase::End => "end",
        Phase::Landing => "landing",
    }
}
