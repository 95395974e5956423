//! How deep the model went: the table of all cells, and in sum.

use std::collections::BTreeMap;

use anyhow::Result;

use super::names;
use super::tables::markdown;
use crate::cell::{Cell, SHAPES, Verdict};
use crate::explore::Depth;
use crate::program::Shape;
use crate::report::{Answer, Question, Report};
use crate::search::Coverage;

/// How each cell was explored.
pub fn coverage(report: &Report) -> Result<String> {
    let row = |(name, cell): (String, Cell)| {
        let verdict = report.verdict(&cell)?;
        let shape = |&shape: &Shape| match verdict {
            Verdict::Proved(coverages) => of_shape(coverages, shape),
            Verdict::RestsOn(passed) => of_shape(&passed[0].1, shape),
            Verdict::Unsound(found) => if shape == found.shape { "fails" } else { "" }.to_string(),
        };
        Ok([name].into_iter().chain(SHAPES.iter().map(shape)).collect())
    };
    let rows = names::cells().into_iter().map(row).collect::<Result<Vec<_>>>()?;
    let heads = ["cell".to_string()].into_iter().chain(SHAPES.iter().map(ToString::to_string)).collect();
    Ok(markdown(heads, rows))
}

/// `≤ 3 (5,308); 2 calls: all (138,350)`.
fn of_shape(coverages: &[Coverage], shape: Shape) -> String {
    let mut told = Vec::new();
    for coverage in coverages.iter().filter(|coverage| coverage.shape == shape) {
        told.push(match (told.len(), coverage.calls) {
            (0, _) => coverage.to_string(),
            (_, 1) => format!("1 call: {coverage}"),
            (_, calls) => format!("{calls} calls: {coverage}"),
        });
    }
    told.join("; ")
}

/// Of how many cells that hold which shape was explored how deep.
pub fn in_sum(report: &Report) -> BTreeMap<String, String> {
    let sound = |question: &(Question, Answer)| match question {
        (Question::Cell(_), Answer::Verdict(Verdict::Proved(coverages))) => Some(coverages.clone()),
        (Question::Cell(_), Answer::Verdict(Verdict::RestsOn(passed))) => Some(passed[0].1.clone()),
        _ => None,
    };
    let sound: Vec<_> = report.0.iter().filter_map(sound).collect();
    // Whether a shape was explored in every order: with all calls, or with any number of them.
    let all = |coverages: &&Vec<Coverage>, shape, any_calls: bool| {
        let full = coverages.first().map(|coverage| coverage.calls);
        let counts = |coverage: &&Coverage| coverage.shape == shape && (any_calls || Some(coverage.calls) == full);
        coverages.iter().filter(counts).any(|coverage| coverage.depth == Some(Depth::Exhaustive))
    };
    let count =
        |shape, any_calls| sound.iter().filter(|coverages| all(coverages, shape, any_calls)).count().to_string();
    let bounded = |coverages: &&Vec<Coverage>| {
        let two_blocks = coverages.iter().filter(|coverage| coverage.shape == SHAPES[1]);
        two_blocks.filter(|coverage| coverage.calls >= 2).any(|coverage| coverage.depth.is_some())
    };
    let executions: u64 = sound.iter().flatten().map(|coverage| coverage.executions).sum();
    BTreeMap::from([
        ("cells that hold".to_string(), sound.len().to_string()),
        ("cells all".to_string(), count(SHAPES[0], false)),
        ("cells all or fewer calls".to_string(), count(SHAPES[0], true)),
        ("cells all two threads".to_string(), count(SHAPES[2], false)),
        ("cells two blocks two calls".to_string(), sound.iter().filter(bounded).count().to_string()),
        ("executions".to_string(), format!("{} million", executions / 1_000_000)),
    ])
}

/// `172,496 executions: 2x1x1 ≤ 2, 2x2x1 part of ≤ 1`: for each shape what the least explored program has.
pub fn deepest(coverages: &[Coverage]) -> String {
    let executions: u64 = coverages.iter().map(|coverage| coverage.executions).sum();
    let shape = |&shape: &Shape| {
        let of_shape = coverages.iter().filter(|coverage| coverage.shape == shape);
        let rank = |coverage: &&Coverage| match coverage.depth {
            None => 0,
            Some(Depth::Preemptions(bound)) => bound,
            Some(Depth::Exhaustive | Depth::Uncut(_)) => u32::MAX,
        };
        Some(format!("{shape} {}", of_shape.min_by_key(rank)?.depth_name()))
    };
    let shapes: Vec<_> = SHAPES.iter().filter_map(shape).collect();
    format!("{} executions ({})", names::thousands(executions), shapes.join(", "))
}
