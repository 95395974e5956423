//! The tables, as plain text and as the page `docs/axioms.md`. Uses `case`, `kernels`, `litmus`, `protocol`.

mod pushes;

use std::fmt::Write;

use allfold_kernels::protocol::abi::Algorithm;

use crate::assumption::{Assumed, Assumption};
use crate::case::Case;
use crate::kernels::matrix::{self, STARTS};
use crate::kernels::{Judgement, judge};
use crate::litmus;
use crate::mutate::harvest;
use crate::protocol::{self, Section};

/// What the page begins with.
const INTRO: &str = include_str!("report/intro.md");
/// What stands before the matrix.
const KERNELS: &str = include_str!("report/kernels.md");
/// What stands before the published tests.
const PUBLISHED: &str = include_str!("report/published.md");
/// What the page ends with.
const LIMITS: &str = include_str!("report/limits.md");

/// All cases, a line each, and the number of verdicts that are not the ones expected.
pub fn lines() -> (Vec<String>, usize) {
    let ours = protocol::sections().into_iter().flat_map(|section| section.cases);
    let mut wrong = 0;
    let line = |case: Case| {
        let answer = case.answer();
        let (name, outcome) = (case.name(), &case.outcome);
        let mut line = format!("{name} | {outcome} | {} | {} candidates", answer.verdict, answer.candidates);
        if answer.verdict != case.expected {
            wrong += 1;
            line += &format!(" | EXPECTED {}", case.expected);
        }
        line
    };
    let lines = litmus::cases().into_iter().chain(ours).map(line).collect();
    (lines, wrong)
}

/// The cases whose name contains `part`: their programs, and the execution that shows the outcome or what forbids it.
pub fn explain(part: &str) -> Vec<String> {
    let ours = protocol::sections().into_iter().flat_map(|section| section.cases);
    let mut lines = Vec::new();
    for case in litmus::cases().into_iter().chain(ours).filter(|case| case.name().contains(part)) {
        let answer = case.answer();
        lines.push(case.name());
        for thread in &case.program.threads {
            lines.push(format!("  {}", thread.place));
            lines.extend(thread.ops.iter().map(|op| format!("    {op}")));
        }
        let counts = format!("{} candidates, {} consistent", answer.candidates, answer.consistent);
        lines.push(format!("  {}: {}; {counts}", case.outcome, answer.verdict));
        lines.extend(answer.witness.iter().map(|step| format!("    {step}")));
        if answer.witness.is_empty() {
            let axioms: Vec<String> = answer.forbidden_by.iter().map(|axiom| axiom.to_string()).collect();
            lines.push(format!("    by {}", axioms.join(", ")));
        }
    }
    lines
}

/// The page.
pub fn page() -> String {
    let mut page = String::from(INTRO);
    for assumption in Assumption::ALL {
        line(&mut page, &format!("| {} | `{assumption}` | {} |", letter(assumption), assumption.means()));
    }
    line(&mut page, "");
    page += KERNELS;
    kernels(&mut page);
    pushes::sections(&mut page);
    line(&mut page, "## The cores, one by one");
    for section in protocol::sections() {
        core(&mut page, &section);
    }
    line(&mut page, "");
    page += PUBLISHED;
    published(&mut page);
    line(&mut page, "");
    page += LIMITS;
    page
}

fn line(page: &mut String, text: &str) {
    page.push_str(text);
    page.push('\n');
}

/// `text` in lines of at most 120 characters.
fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= 120 => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_string()),
        }
    }
    lines.join("\n")
}

/// The letter that stands for an assumption in a table.
fn letter(assumption: Assumption) -> char {
    match assumption {
        Assumption::KernelEndPublishes => 'K',
        Assumption::PollOrdersLoads => 'P',
        Assumption::LoadsDoneBeforeBarrier => 'L',
    }
}

fn letters(assumptions: &[Assumption]) -> String {
    assumptions.iter().map(|&assumption| letter(assumption).to_string()).collect::<Vec<_>>().join(" + ")
}

fn judgement(judgement: &Judgement) -> String {
    match judgement {
        Judgement::Sound => "sound".into(),
        Judgement::RestsOn(sets) => {
            let sets: Vec<String> = sets.iter().map(|set| letters(set)).collect();
            format!("rests on {}", sets.join(", or on "))
        }
        Judgement::Unsound(_) => "unsound".into(),
    }
}

fn spelled(algorithm: Algorithm) -> String {
    algorithm.name().replace('_', "-")
}

fn kernels(page: &mut String) {
    let starts = STARTS.map(|(name, _, _)| name).join(" | ");
    line(page, &format!("| algorithm | input | at the end | {starts} |\n|---|---|---|---|---|---|---|"));
    for row in matrix::rows() {
        let cells = row.cells.map(|cell| judgement(&judge(&cell))).join(" | ");
        line(page, &format!("| {} | {} | {} | {cells} |", spelled(row.algorithm), row.input.name(), row.end));
    }
    line(
        page,
        "\nThe presets:\n\n| preset | algorithm | input | the caller's buffer | verdict |\n|---|---|---|---|---|",
    );
    for (preset, cell) in matrix::presets() {
        let usage = if cell.input.staged() { "any".into() } else { cell.usage.to_string() };
        let (algorithm, input) = (spelled(cell.algorithm), cell.input.name());
        let verdict = judgement(&judge(&cell));
        line(page, &format!("| `{}` | {algorithm} | {input} | {usage} | {verdict} |", preset.name()));
    }
}

fn core(page: &mut String, section: &Section) {
    line(page, &format!("\n### {}\n\n{}\n", section.title, wrapped(section.asks)));
    line(page, "| form | assumed | outcome asked for | verdict | candidate executions |\n|---|---|---|---|---|");
    let (mut killed, mut spared) = (0, Vec::new());
    for case in &section.cases {
        let answer = case.answer();
        let (form, assumed) = (&case.form, letters(&case.assumptions));
        line(page, &format!("| {form} | {assumed} | {} | {} | {} |", case.outcome, answer.verdict, answer.candidates));
        if case.mutate {
            let harvest = harvest(case);
            killed += harvest.killed;
            spared.extend(harvest.spared.into_iter().map(|(_, why)| why));
        }
    }
    line(page, &format!("\n{}", wrapped(&format!("**{}**", section.answer))));
    if killed > 0 {
        let survivors = match spared.len() {
            0 => format!("all {killed} show the outcome"),
            count => {
                spared.sort();
                spared.dedup();
                format!("{killed} show the outcome; {count} do not, because {}", spared.join("; or "))
            }
        };
        let mutants = format!("Mutants of the sound forms, one operation weakened or dropped in each: {survivors}.");
        line(page, &format!("\n{}", wrapped(&mutants)));
    }
}

/// The published cases, a row for all variants of a form.
fn published(page: &mut String) {
    line(page, "| test | form | outcome asked for | scope reaches | scope too narrow | candidate executions | from |");
    line(page, "|---|---|---|---|---|---|---|");
    let cases = litmus::cases();
    let key = |case: &Case| (case.test, case.form.clone(), case.outcome.to_string(), case.source);
    let mut keys: Vec<_> = Vec::new();
    for key in cases.iter().map(key) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    for (test, form, outcome, source) in keys {
        let (mut columns, mut candidates) = ([Vec::new(), Vec::new()], 0);
        for case in cases.iter().filter(|case| key(case) == (test, form.clone(), outcome.clone(), source)) {
            let answer = case.answer();
            candidates += answer.candidates;
            columns[usize::from(!case.reaches)].push(answer.verdict.to_string());
        }
        let [reaches, narrow] = columns.map(|mut verdicts| {
            let count = verdicts.len();
            verdicts.dedup();
            if count > 1 { format!("{} ({count})", verdicts.join(" or ")) } else { verdicts.concat() }
        });
        let outcome = if outcome.is_empty() { "both polls end" } else { &outcome };
        let _ = writeln!(page, "| {test} | {form} | {outcome} | {reaches} | {narrow} | {candidates} | {source} |");
    }
}
