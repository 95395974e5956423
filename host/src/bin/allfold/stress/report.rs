//! Results as a table, as Markdown and as JSON.

use allfold::Soundness;
use comfy_table::{Cell as Field, Color};
use serde::Serialize;

use super::calls::Outcome;
use super::cells::Cell;
use super::settings::Settings;
use super::story::Story;
use crate::args::algorithm_name;
use crate::choice::{Choice, end_name, order_name, scope_name, verdict};
use crate::table;

/// One cell.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub protocol: &'static str,
    pub algorithm: &'static str,
    pub input: &'static str,
    pub start: &'static str,
    pub order: &'static str,
    pub end: &'static str,
    pub verdict: String,
    pub sound: bool,
    pub calls: u64,
    /// Elements that were compared: of all calls, on all ranks.
    pub elements: u64,
    pub wrong: u64,
    /// Wrong elements of all that were compared.
    pub rate: f64,
    pub seconds: f64,
    pub gave_up: Option<String>,
    pub first_wrong: Option<Story>,
    /// The first wrong element in a sentence.
    pub story: Option<String>,
    #[serde(skip)]
    named: bool,
}

impl Row {
    pub fn new(cell: &Cell, settings: &Settings, outcome: &Outcome) -> Row {
        let soundness = cell.soundness();
        let elements = outcome.calls * (settings.elems * settings.target.world()) as u64;
        Row {
            protocol: cell.choice.name(),
            algorithm: algorithm_name(cell.algorithm),
            input: cell.input.name(),
            start: scope_name(cell.form.start.scope),
            order: order_name(cell.form.start.order),
            end: end_name(cell.form.reuse),
            verdict: verdict(soundness),
            sound: soundness == Soundness::Sound,
            calls: outcome.calls,
            elements,
            wrong: outcome.wrong,
            rate: outcome.wrong as f64 / elements.max(1) as f64,
            seconds: (outcome.seconds * 1e3).round() / 1e3,
            gave_up: outcome.gave_up.clone(),
            first_wrong: outcome.story.clone(),
            story: outcome.story.as_ref().map(Story::text),
            named: matches!(cell.choice, Choice::Preset(_)),
        }
    }

    fn is_bad(&self) -> bool {
        self.wrong > 0 || self.gave_up.is_some()
    }

    /// What it is, in the order of the columns.
    fn form(&self, named: bool) -> Vec<&str> {
        let Row { protocol, algorithm, input, start, order, end, verdict, .. } = self;
        let form = [*protocol, algorithm, input, start, order, end, verdict];
        form[usize::from(!named)..].to_vec()
    }

    /// Wrong elements; what was counted after a rank gave up says nothing.
    fn counted(&self) -> String {
        if self.gave_up.is_some() { "gave up".to_owned() } else { self.wrong.to_string() }
    }

    fn first(&self) -> String {
        match (&self.gave_up, &self.first_wrong) {
            (None, Some(story)) => story.short(),
            (Some(_), _) | (None, None) => String::new(),
        }
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
    /// Of each rank.
    pub bytes: usize,
    pub dtype: &'static str,
    pub blocks: u32,
    pub threads: u32,
    /// 0: no delays.
    pub delay_ns: u32,
    pub delay_one_in: u32,
    pub traffic: bool,
    pub version: &'static str,
    pub date: String,
    /// Of all cells, with all that it took to set them up.
    pub seconds: f64,
    pub rows: Vec<Row>,
}

const FORM: [&str; 7] = ["protocol", "algorithm", "input", "start", "order", "end", "verdict"];

impl Report {
    /// Cells that are said to be sound and were not right.
    pub fn refuted(&self) -> usize {
        self.rows.iter().filter(|row| row.sound && row.is_bad()).count()
    }

    /// Whether the protocols have names, and not only parts.
    fn named(&self) -> bool {
        self.rows.iter().any(|row| row.named)
    }

    fn conditions(&self) -> String {
        let Report { bytes, dtype, blocks, threads, delay_ns, delay_one_in, .. } = self;
        let delays = match delay_ns {
            0 => "no delays".to_owned(),
            _ => format!("blocks late by {delay_ns} ns and ranks by four times that at one in {delay_one_in} places"),
        };
        let traffic = if self.traffic { "; copies beside it" } else { "" };
        format!("{bytes} bytes of {dtype} a rank, {blocks} blocks of {threads} threads; {delays}{traffic}")
    }

    /// What stands above and below the table, and the table between.
    pub fn text(&self) -> String {
        let Report { device, ranks, version, .. } = self;
        let head = format!("allfold {version}: {ranks} ranks on {device}\n{}", self.conditions());
        let mut text = format!("{head}\n\n{}\n\n", self.table().trim_fmt());
        for row in self.rows.iter().filter(|row| row.is_bad()) {
            let happened = match (&row.gave_up, &row.story) {
                (Some(error), _) => format!("gave up: {error}"),
                (None, Some(story)) => story.clone(),
                (None, None) => continue,
            };
            text += &format!("{}: {happened}\n", row.form(true)[..6].join(" "));
        }
        text + &self.summary()
    }

    fn summary(&self) -> String {
        let cells = |count: usize| format!("{count} cell{}", if count == 1 { "" } else { "s" });
        let sound = self.rows.iter().filter(|row| row.sound).count();
        let first = match (sound, self.refuted()) {
            (0, _) => "No cell is known to be sound".to_owned(),
            (_, 0) => format!("Every element right in the {} known to be sound", cells(sound)),
            (_, bad) => format!("WRONG in {bad} of the {} known to be sound", cells(sound)),
        };
        let others = self.rows.len() - sound;
        let bad = self.rows.iter().filter(|row| !row.sound && row.is_bad()).count();
        let second = if others == 0 { String::new() } else { format!("; of {others} others {bad} went wrong") };
        format!("{first}{second}. {:.1} s.\n", self.seconds)
    }

    fn table(&self) -> comfy_table::Table {
        let titles = &FORM[usize::from(!self.named())..];
        let mut table =
            table::new(&[titles, &["calls", "wrong\nelements", "rate", "s", "first wrong,\nas if"][..]].concat());
        for row in &self.rows {
            let colour = if row.sound { Color::Red } else { Color::Yellow };
            let counted = Field::new(row.counted());
            let rate = match (&row.gave_up, row.wrong) {
                (Some(_), _) => String::new(),
                (None, 0) => "0".to_owned(),
                (None, _) => format!("{:.1e}", row.rate),
            };
            let form = row.form(self.named()).into_iter().map(Field::new);
            let numbers = [
                Field::new(row.calls),
                if row.is_bad() { counted.fg(colour) } else { counted },
                Field::new(rate),
                Field::new(format!("{:.2}", row.seconds)),
                Field::new(row.first()),
            ];
            table.add_row(form.chain(numbers));
        }
        table
    }

    /// A line about what was run, and a table.
    pub fn markdown(&self) -> String {
        let Report { device, ranks, version, date, .. } = self;
        let titles = [&FORM[usize::from(!self.named())..], &["calls", "wrong elements"]].concat();
        let line = |fields: &[&str]| format!("| {} |\n", fields.join(" | "));
        let rules: Vec<_> = titles.iter().map(|title| if title.ends_with('s') { "---:" } else { "---" }).collect();
        let mut text = format!("allfold {version}, {ranks} ranks on {device}, {date}; {}.\n\n", self.conditions());
        text += &line(&titles);
        text += &line(&rules);
        for row in &self.rows {
            let (calls, counted) = (row.calls.to_string(), row.counted());
            text += &line(&[row.form(self.named()), vec![&calls, &counted]].concat());
        }
        text
    }

    /// Pretty JSON with a line break at its end.
    pub fn json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
