//! The generated parts of the page.

use std::collections::BTreeMap;

use allfold_kernels::protocol::abi::InputMode;
use allfold_kernels::protocol::preset::Preset;
use allfold_kernels::protocol::spec::{Reuse, Scope};
use anyhow::{Result, bail};

use super::hardware::Runs;
use super::{Record, depths, names, names::thousands};
use crate::assumptions::Assumptions;
use crate::cell::{Cell, Verdict};
use crate::faults::{self, Fate};
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
                Some(0) => "switches only where a thread waits",
                Some(1) => "1 preemption",
                Some(2) => "at most 2 preemptions",
                Some(_) | None => "several preemptions",
            };
            let short = capital(story.short.trim_end_matches('.'));
            let program = capital(program);
            format!("### Counterexample {}\n\n*{short}.* {program}, {switches}.\n\n```text\n{story}```", index + 1)
        };
        self.told.iter().enumerate().map(tell).collect::<Vec<_>>().join("\n\n")
    }
}

/// What two counterexamples have in common when one is told for both: the same goes wrong, in the same sort of program.
/// How the input came makes no difference to what goes wrong in scratch.
fn alike(found: &Counterexample) -> (String, String) {
    let without = |text: &str, words: &[&str]| words.iter().fold(text.to_string(), |text, word| text.replace(word, ""));
    let short = without(&found.story.short, &[" bank 0", " bank 1", " buffer"]);
    let inputs: Vec<_> = InputMode::ALL.iter().map(|&input| format!(" {}", names::input(input))).collect();
    let inputs: Vec<_> = inputs.iter().map(String::as_str).collect();
    let of_scratch = short.contains("scratch");
    (without(&found.program, if of_scratch { &inputs } else { &[] }), short)
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
                let seen = runs.wrong(None, &cell, verdict)?.map_or_else(String::new, |wrong| format!(" · {wrong}"));
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
        let verdict = record.get(&names::preset(preset, &cell))?;
        let end = match (protocol.reuse, cell.input.staged()) {
            // A registered input has no banks.
            (Reuse::Parity, false) => names::reuse(Reuse::Nothing),
            (reuse, _) => names::reuse(reuse),
        };
        let sync =
            if protocol.start.sync_before || protocol.start.scope == Scope::MultiGpu { "" } else { ", no sync before" };
        Ok(vec![
            format!("`{}`", preset.name()),
            names::form(&cell),
            format!("{}{sync}", names::start(protocol.start)),
            end,
            verdict.to_string(),
            runs.wrong(Some(preset), &cell, verdict)?.unwrap_or_default(),
        ])
    };
    let heads = ["preset", "form", "start", "end", "verdict", "wrong on two H200"].map(String::from).to_vec();
    Ok(markdown(heads, matrix::presets().into_iter().map(row).collect::<Result<_>>()?))
}

/// What is neither a cell nor a fault.
pub fn extras(report: &Report, counterexamples: &mut Counterexamples) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    let (mut rows, mut failed, mut passed) = (0, None, Vec::new());
    for (question, answer) in &report.0 {
        match (question, answer) {
            (Question::Without(assumption), Answer::Found(found)) => {
                let link = found.as_ref().map_or_else(|| "does not fail".into(), |found| counterexamples.link(found));
                values.insert(format!("without {assumption}"), link);
            }
            (Question::Early(early), Answer::Checked(checked)) => {
                let before = if early.after_all_reduce { "an all-reduce" } else { "any kernel" };
                let form = format!("{} {}", names::algorithm(early.algorithm), names::input(early.input));
                let waits = match early.waits_before {
                    Access::Epoch => "first of all",
                    Access::Flag => "after the epoch",
                    Access::Data => "after the start barrier",
                };
                let verdict = match checked {
                    Ok(coverage) => format!("no failure, {}", coverage.depth_name()),
                    Err(found) => format!("**unsound** {}", counterexamples.link(found)),
                };
                values.insert(format!("early {form} after {before}: waits {waits}"), verdict);
            }
            (Question::Mixed(_), Answer::Checked(checked)) => {
                rows += 1;
                match checked {
                    Ok(coverage) => passed.push(*coverage),
                    Err(found) => failed = failed.or(Some(found)),
                }
            }
            _ => {}
        }
    }
    // K and P are often needed by one and the same execution.
    let of = |values: &BTreeMap<String, String>, name: &str| values.get(name).cloned().unwrap_or_default();
    let (k, p) = (of(&values, "without KernelEndPublishes"), of(&values, "without PollOrdersLoads"));
    let differs = if k == p { "; without P: the same".to_string() } else { format!("; without P: {p}") };
    values.insert("without P, if it differs".into(), differs);
    let mixed = match failed {
        None => format!("no failure in {}", depths::deepest(&passed)),
        Some(found) => format!("**unsound** {}", counterexamples.link(found)),
    };
    values.insert("mixed rows".into(), thousands(rows));
    values.insert("mixed verdict".into(), mixed);
    values
}

/// The table of planted faults, and the survivors.
pub fn planted(report: &Report) -> Result<BTreeMap<String, String>> {
    let mut killed = Vec::new();
    let mut survived: Vec<(&str, Vec<String>, Vec<Coverage>)> = Vec::new();
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
            Fate::Survived(coverages) => match survived.iter_mut().find(|(name, ..)| *name == fault.name) {
                Some((_, forms, explored)) => {
                    forms.push(form);
                    explored.extend(coverages);
                }
                None => survived.push((&fault.name, vec![form], coverages.clone())),
            },
        }
    }
    let alive = survived.iter().map(|(_, forms, _)| forms.len()).sum::<usize>();
    let mut list = Vec::new();
    for (name, forms, explored) in &survived {
        let Some(why) = faults::why_it_survives(name) else {
            bail!("no explanation of the survivor \"{name}\" in {}", forms.join(", "));
        };
        list.push(format!("- *{name}* ({}): {why} No failure in {}.", forms.join(", "), depths::deepest(explored)));
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

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A table.
pub fn markdown(heads: Vec<String>, rows: Vec<Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
    let rule = format!("|{}", "---|".repeat(heads.len()));
    [line(&heads), rule].into_iter().chain(rows.iter().map(|row| line(row))).collect::<Vec<_>>().join("\n")
}
