//! What a mixed run was and what came out, as text and as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::batch::{Batch, Way};
use crate::args::algorithm_name;
use crate::stress::story::Story;

/// How many calls of each kind were made.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counts {
    pub calls: u64,
    /// Elements that were compared, on all ranks.
    pub elements: u64,
    pub dtype: BTreeMap<&'static str, u64>,
    pub algorithm: BTreeMap<&'static str, u64>,
    pub input: BTreeMap<&'static str, u64>,
    pub way: BTreeMap<&'static str, u64>,
    pub graphs: u64,
    /// How often calls went on on other streams.
    pub stream_changes: u64,
    /// How often a rank was late.
    pub late: u64,
}

impl Counts {
    /// Counts the calls of a batch of `world` ranks.
    pub fn add(&mut self, batch: &Batch, world: usize, other_streams: bool) {
        let rounds = batch.rounds();
        let is_graph = batch.way != Way::Eager;
        self.graphs += u64::from(is_graph);
        self.stream_changes += u64::from(other_streams);
        self.late += u64::from(batch.late.is_some());
        self.calls += batch.made();
        for call in &batch.calls {
            self.elements += call.elems * world as u64 * rounds;
            *self.dtype.entry(call.dtype.name()).or_default() += rounds;
            *self.algorithm.entry(algorithm_name(call.plan.algorithm)).or_default() += rounds;
            *self.input.entry(call.plan.input.name()).or_default() += rounds;
            let ways = [
                (if is_graph { "in a graph" } else { "eager" }, true),
                (if call.in_place() { "in place" } else { "out of place" }, true),
                (if call.is_misaligned() { "misaligned" } else { "aligned" }, true),
                ("algorithm left to the plan", call.options.algorithm.is_none()),
                ("grid drawn", call.options.blocks.is_some()),
            ];
            for (way, _) in ways.into_iter().filter(|(_, is)| *is) {
                *self.way.entry(way).or_default() += rounds;
            }
        }
    }
}

/// The call of the first wrong element.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FirstCall {
    /// From 1.
    pub call: u64,
    pub dtype: &'static str,
    /// Of each rank.
    pub elements: u64,
    pub algorithm: &'static str,
    /// Whether the plan chose it.
    pub algorithm_left_to_the_plan: bool,
    pub input: &'static str,
    pub blocks: u32,
    pub threads: u32,
    pub in_place: bool,
    /// Of each rank's input and output, off alignment.
    pub offsets_bytes: Vec<[usize; 2]>,
    /// The set of each rank's streams that it was on.
    pub streams: usize,
    /// The rank that was late at the first of the calls it was made with.
    pub late_rank: Option<usize>,
    /// Calls that it was made with, itself among them, and its place there, from 1.
    pub calls_together: usize,
    pub place: usize,
    /// Of a graph: which replay of how many, from 1, and the streams it was captured on.
    pub replay: Option<(u64, u64)>,
    pub captured_on: Option<usize>,
    pub first_wrong: Story,
    /// All of it in sentences.
    pub story: String,
    /// The command that makes the same calls.
    pub again: String,
}

impl FirstCall {
    /// The call at `round` and `place` of `batch`, of `world` ranks.
    pub fn new(
        world: usize,
        batch: &Batch,
        (round, place): (u64, usize),
        first_wrong: Story,
        seed: u64,
        again: String,
    ) -> FirstCall {
        let call = &batch.calls[place];
        let (replay, captured_on) = match batch.way {
            Way::Eager => (None, None),
            Way::Graph { captured_on, replays } => (Some((round + 1, replays)), Some(captured_on)),
        };
        let mut told = FirstCall {
            call: first_wrong.call,
            dtype: call.dtype.name(),
            elements: call.elems,
            algorithm: algorithm_name(call.plan.algorithm),
            algorithm_left_to_the_plan: call.options.algorithm.is_none(),
            input: call.plan.input.name(),
            blocks: call.plan.blocks,
            threads: call.plan.threads,
            in_place: call.in_place(),
            offsets_bytes: call.offsets_bytes(world),
            streams: batch.streams,
            late_rank: batch.late.map(|late| late.rank),
            calls_together: batch.calls.len(),
            place: place + 1,
            replay,
            captured_on,
            first_wrong,
            story: String::new(),
            again,
        };
        told.story = told.in_words(seed);
        told
    }

    fn in_words(&self, seed: u64) -> String {
        let FirstCall { call, dtype, elements, algorithm, input, blocks, threads, streams, place, .. } = self;
        let chosen = if self.algorithm_left_to_the_plan { " as the plan chose" } else { "" };
        let in_place = if self.in_place { "in place" } else { "out of place" };
        let offsets = match self.offsets_bytes.iter().flatten().all(|&bytes| bytes == 0) {
            true => "all buffers aligned".to_owned(),
            false => format!("inputs and outputs off alignment by {:?} bytes", self.offsets_bytes),
        };
        let made = match (self.replay, self.captured_on) {
            (Some((replay, replays)), Some(captured_on)) => {
                format!("of a graph captured on streams {captured_on}, in replay {replay} of {replays}")
            }
            (_, _) => "made one by one".to_owned(),
        };
        let late = self.late_rank.map(|rank| format!(", rank {rank} late before them")).unwrap_or_default();
        format!(
            "call {call} of seed {seed}: {elements} elements of {dtype}, {algorithm}{chosen} by {blocks} blocks of {threads} \
             threads, {input} input, {in_place}, {offsets}; number {place} of {} calls {made}, on streams {streams}{late}\n\
             {}\nthe same calls: {}",
            self.calls_together,
            self.first_wrong.text(),
            self.again
        )
    }
}

/// What was run, and what came out.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The GPUs' or the CPU's name.
    pub device: String,
    pub ranks: usize,
    /// Ordinal of each rank's GPU; empty on the CPU.
    pub devices: Vec<u32>,
    pub backend: &'static str,
    pub seed: u64,
    /// Of a rank's largest call.
    pub most_bytes: u64,
    pub traffic: bool,
    pub version: &'static str,
    pub date: String,
    /// Of the calls, with all that they take.
    pub seconds: f64,
    pub calls_a_second: f64,
    /// Calls that were drawn and that the library refuses: others were drawn in their place, and made.
    pub drawn_again: u64,
    /// Wrong elements, of all calls and ranks.
    pub wrong: u64,
    #[serde(flatten)]
    pub counts: Counts,
    pub first_wrong: Option<FirstCall>,
}

impl Report {
    /// The calls so far have taken so long.
    pub fn time(&mut self, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64();
        self.seconds = (seconds * 1e3).round() / 1e3;
        self.calls_a_second = (self.counts.calls as f64 / seconds.max(1e-9)).round();
    }

    pub fn text(&self) -> String {
        let Report { device, ranks, version, most_bytes, seed, counts, .. } = self;
        let traffic = if self.traffic { "; copies beside it" } else { "" };
        let mut text = format!(
            "allfold {version}: {ranks} ranks on {device}\n\
             mixed calls of up to {most_bytes} bytes a rank, seed {seed}{traffic}\n\n"
        );
        let kinds = [
            ("dtype", &counts.dtype),
            ("algorithm", &counts.algorithm),
            ("input", &counts.input),
            ("made", &counts.way),
        ];
        for (kind, calls) in kinds {
            let calls: Vec<_> = calls.iter().map(|(name, count)| format!("{name} {count}")).collect();
            text += &format!("{kind:<10} {}\n", calls.join(", "));
        }
        text += &format!(
            "{:<10} {} graphs, {} changes of streams, {} late ranks; {} calls refused and drawn again\n\n",
            "", counts.graphs, counts.stream_changes, counts.late, self.drawn_again
        );
        if let Some(first) = &self.first_wrong {
            text += &format!("{}\n\n", first.story);
        }
        text + &self.summary()
    }

    fn summary(&self) -> String {
        let Report { seconds, calls_a_second, wrong, counts, .. } = self;
        let first = match wrong {
            0 => format!("Every element right: {} on all ranks", counts.elements),
            wrong => format!("WRONG: {wrong} of {} elements on all ranks", counts.elements),
        };
        format!("{first}. {} calls in {seconds:.1} s, {calls_a_second:.0} calls a second.\n", counts.calls)
    }

    /// Pretty JSON with a line break at its end.
    pub fn json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}
