//! The generated parts of the page.

use std::collections::BTreeMap;

use allfold_kernels::protocol::preset::Preset;
use allfold_kernels::protocol::spec::Scope;
use anyhow::{Result, bail};

use super::hardware::Runs;
use super::{Record, names};
use crate::assumptions::Assumptions;
use crate::cell::{Cell, SHAPES, Verdict};
use crate::explore::Depth;
use crate::faults::Fate;
use crate::matrix;
use crate::program::Access;
use crate::report::{Answer, Question, Report};
use crate::search::{Counterexample, Coverage};

/// Every counterexample that the page tells, alike ones once.
#[derive(Default)]
pub struct Counterexamples {
    told: Vec<Counterexample>,
}

impl Counterexamples {
    /// A link to `found`.
    fn link(&mut self, found: &Counterexample) -> String {
        let known = self.told.iter().position(|told| alike(told) == alike(found));
        let number = known.unwrap_or_else(|| {
            self.told.push(found.clone());
            self.told.len() - 1
        }) + 1;
        format!("[{number}](#counterexample-{number})")
    }

    /// All that were linked.
    pub fn render(&self) -> String {
        let tell = |(index, found): (usize, &Counterexample)| {
            let Counterexample { program, preemptions, story, .. } = found;
            let switches = match preemptions {
                0 => "switches only where a thread waits".to_string(),
                1 => "1 preemption".to_string(),
                more => format!("{more} preemptions"),
            };
            let short = capital(story.short.trim_end_matches('.'));
            let program = capital(program);
            format!("### Counterexample {}\n\n*{short}.* {program}, {switches}.\n\n```text\n{story}```", index + 1)
        };
        self.told.iter().enumerate().map(tell).collect::<Vec<_>>().join("\n\n")
    }
}

/// What two counterexamples have in common when one is told for both: the same goes wrong, in the same sort of program.
fn alike(found: &Counterexample) -> (&str, String) {
    let banks = [" bank 0", " bank 1", " buffer"];
    (&found.program, banks.iter().fold(found.story.short.clone(), |short, bank| short.replace(bank, "")))
}

fn letters(set: Assumptions) -> String {
    set.iter().map(names::letter).collect::<Vec<_>>().join(" ")
}

fn sets(sets: &[(Assumptions, Vec<Coverage>)]) -> String {
    sets.iter().map(|(set, _)| letters(*set)).collect::<Vec<_>>().join(" or ")
}

/// `proved`, `rests on …` or `unsound …`.
pub fn verdict(verdict: &Verdict, counterexamples: &mut Counterexamples) -> String {
    match verdict {
        Verdict::Proved(_) => "proved".to_string(),
        Verdict::RestsOn(passed) => format!("rests on {}", sets(passed)),
        Verdict::Unsound(found) => format!("**unsound** {}", counterexamples.link(found)),
    }
}

/// One table for each algorithm, input mode and usage: each cell's verdict, and what stress runs saw of it.
pub fn matrix(record: &Record, runs: &Runs) -> Result<String> {
    let table = |(algorithm, input, usage)| {
        let cell = |start, reuse| matrix::cell(algorithm, input, usage, start, reuse);
        let row = |start| {
            let verdicts = matrix::reuses(input).map(|reuse| {
                let cell = cell(start, reuse);
                let verdict = record.get(&names::cell(&cell))?;
                let seen = runs.wrong(None, &cell)?.map_or_else(String::new, |wrong| format!(" · {wrong}"));
                Ok(format!("{verdict}{seen}"))
            });
            [Ok(names::start(start))].into_iter().chain(verdicts).collect()
        };
        let rows = matrix::starts().map(row).collect::<Result<Vec<_>>>()?;
        let heads = ["start \\ end".to_string()].into_iter().chain(matrix::reuses(input).map(names::reuse)).collect();
        let any = matrix::starts().next().zip(matrix::reuses(input).next());
        let title = any.map_or_else(String::new, |(start, reuse)| names::form(&cell(start, reuse)));
        Ok(format!("### {}\n\n{}", capital(&title), markdown(heads, rows)))
    };
    Ok(matrix::tables().map(table).collect::<Result<Vec<_>>>()?.join("\n\n"))
}

/// A row for each form of each preset.
pub fn presets(record: &Record, runs: &Runs) -> Result<String> {
    let row = |(preset, cell): (Preset, Cell)| {
        let protocol = cell.protocol;
        let sync =
            if protocol.start.sync_before || protocol.start.scope == Scope::MultiGpu { "" } else { ", no sync before" };
        Ok(vec![
            format!("`{}`", preset.name()),
            names::form(&cell),
            format!("{}{sync}", names::start(protocol.start)),
            names::reuse(protocol.reuse),
            record.get(&names::preset(preset, &cell))?.to_string(),
            runs.wrong(Some(preset), &cell)?.unwrap_or_default(),
        ])
    };
    let heads = ["preset", "form", "start", "end", "verdict", "wrong on two H200"].map(String::from).to_vec();
    Ok(markdown(heads, matrix::presets().into_iter().map(row).collect::<Result<_>>()?))
}

/// How each cell was explored.
pub fn coverage(report: &Report) -> Result<String> {
    let row = |(name, cell): (String, Cell)| {
        let shapes: Vec<String> = match report.verdict(&cell)? {
            Verdict::Proved(coverage) => coverage.iter().map(depth).collect(),
            Verdict::RestsOn(passed) => passed[0].1.iter().map(depth).collect(),
            Verdict::Unsound(found) => {
                SHAPES.iter().map(|&shape| if shape == found.shape { "fails" } else { "" }.to_string()).collect()
            }
        };
        Ok([name].into_iter().chain(shapes).collect())
    };
    let rows = names::cells().into_iter().map(row).collect::<Result<Vec<_>>>()?;
    let heads = ["cell".to_string()].into_iter().chain(SHAPES.iter().map(ToString::to_string)).collect();
    Ok(markdown(heads, rows))
}

fn depth(coverage: &Coverage) -> String {
    let executions = names::thousands(coverage.executions);
    match coverage.depth {
        Depth::Exhaustive | Depth::Uncut => format!("all ({executions})"),
        Depth::Preemptions(bound) => format!("≤ {bound} ({executions})"),
    }
}

/// What is neither a cell nor a fault.
pub fn extras(report: &Report, counterexamples: &mut Counterexamples) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    let (mut rows, mut executions, mut failed) = (0, 0, None);
    for (question, answer) in &report.0 {
        match (question, answer) {
            (Question::Without(assumption), Answer::Found(found)) => {
                let link = found.as_ref().map_or_else(|| "does not fail".into(), |found| counterexamples.link(found));
                values.insert(format!("without {assumption}"), link);
            }
            (Question::Early(early), Answer::Checked(checked)) => {
                let before = if early.after_all_reduce { "an all-reduce" } else { "any kernel" };
                let waits = match early.waits_before {
                    Access::Epoch => "first of all",
                    Access::Flag => "after the epoch",
                    Access::Data => "after the start barrier",
                };
                let verdict = match checked {
                    Ok(_) => "proved".to_string(),
                    Err(found) => format!("**unsound** {}", counterexamples.link(found)),
                };
                values.insert(format!("early after {before}: waits {waits}"), verdict);
            }
            (Question::Mixed(_), Answer::Checked(checked)) => {
                rows += 1;
                match checked {
                    Ok(coverage) => executions += coverage.executions,
                    Err(found) => failed = failed.or(Some(found)),
                }
            }
            _ => {}
        }
    }
    let mixed = match failed {
        None => format!("proved in {} executions", names::thousands(executions)),
        Some(found) => format!("**unsound** {}", counterexamples.link(found)),
    };
    values.insert("mixed rows".into(), names::thousands(rows));
    values.insert("mixed verdict".into(), mixed);
    values
}

/// The table of planted faults, and the survivors.
pub fn faults(report: &Report) -> Result<BTreeMap<String, String>> {
    let mut killed = Vec::new();
    let mut survived: Vec<(&str, Vec<String>)> = Vec::new();
    let faults = report.0.iter().filter_map(|(question, answer)| match (question, answer) {
        (Question::Fault(fault), Answer::Fate(fate)) => Some((fault, fate)),
        _ => None,
    });
    for (fault, fate) in faults {
        let form =
            format!("`{}` {} {}", fault.preset.name(), names::algorithm(fault.algorithm), names::input(fault.input));
        match fate {
            Fate::Killed(found, weaker) => {
                let lives = match weaker {
                    Some(Verdict::RestsOn(passed)) => sets(passed),
                    Some(Verdict::Unsound(_)) => "never".to_string(),
                    // Killed by a program that is no cell.
                    Some(Verdict::Proved(_)) | None => String::new(),
                };
                killed.push(vec![form, fault.name.clone(), format!("{}: {}", found.program, found.story.short), lives]);
            }
            Fate::Survived => match survived.iter_mut().find(|(name, _)| *name == fault.name) {
                Some((_, forms)) => forms.push(form),
                None => survived.push((&fault.name, vec![form])),
            },
        }
    }
    let alive = survived.iter().map(|(_, forms)| forms.len()).sum::<usize>();
    let mut list = Vec::new();
    for (name, forms) in &survived {
        let Some(why) = why_it_survives(name) else {
            bail!("no explanation of the survivor \"{name}\" in {}", forms.join(", "));
        };
        list.push(format!("- *{name}* ({}): {why}", forms.join(", ")));
    }
    let heads = ["protocol", "fault", "what the model found", "lives if granted"].map(String::from).to_vec();
    Ok(BTreeMap::from([
        ("planted".to_string(), (killed.len() + alive).to_string()),
        ("killed".to_string(), killed.len().to_string()),
        ("survived".to_string(), alive.to_string()),
        ("faults".to_string(), markdown(heads, killed)),
        ("survivors".to_string(), list.join("\n")),
    ]))
}

/// Why a fault makes no difference; every survivor must have its reason here.
fn why_it_survives(fault: &str) -> Option<&'static str> {
    match fault {
        "one bank of flags" => Some(
            "\"reached\" takes the epoch of the next call too, and a peer cannot be further than that. The banks are \
             there for the test for equality, which the presets have. They cost memory and no instruction.",
        ),
        "equality in place of \"reached\"" => Some(
            "with two banks, a flag of this call's bank cannot hold the next call's epoch. Both tests cost the same.",
        ),
        "one bank of flags, and equality" => Some(
            "where a call has two barriers, each keeps the other's flags from being overwritten too early. In the forms \
             with one barrier a call it hangs (see the table), and a communicator mixes forms.",
        ),
        _ => None,
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn markdown(heads: Vec<String>, rows: Vec<Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
    let rule = format!("|{}", "---|".repeat(heads.len()));
    [line(&heads), rule].into_iter().chain(rows.iter().map(|row| line(row))).collect::<Vec<_>>().join("\n")
}
