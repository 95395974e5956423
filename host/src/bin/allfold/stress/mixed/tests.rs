//! Tests of mixed runs on CPU ranks.

use allfold::{Algorithm, Dtype, InputMode, ReduceOp};
use clap::Parser;

use super::memory::{END_ELEMS, Memory, Part};
use super::report::{FirstCall, Report};
use super::*;
use crate::args::{Args, Command, algorithm_name};

/// What `allfold` and these words come to.
fn run_words<'a>(words: impl Iterator<Item = &'a str>) -> Report {
    let Command::Stress(args) = Args::parse_from(words).command else { panic!("asked for stress") };
    let settings = Settings::new(&args).expect("possible");
    let mut report = settings.report();
    run::run(&settings, &mut report).expect("runs");
    report
}

fn report(line: &str) -> Report {
    let words = ["allfold", "stress", "--mixed", "--backend", "cpu"];
    run_words(words.into_iter().chain(line.split_whitespace()))
}

#[test]
fn every_element_of_every_kind_of_call_is_right() {
    for ranks in [2, 3] {
        let report = report(&format!("--ranks {ranks} --seed 1 --calls 1000 --max-bytes 64K"));
        assert!(report.wrong == 0 && report.first_wrong.is_none(), "{report:?}");
        let counts = &report.counts;
        assert!((1000..1200).contains(&counts.calls) && counts.elements > counts.calls, "{report:?}");
        let algorithms = Algorithm::ALL.into_iter().filter(|algorithm| algorithm.takes(ranks));
        assert!(algorithms.map(algorithm_name).all(|name| counts.algorithm.contains_key(name)), "{report:?}");
        assert_eq!(counts.dtype.len(), Dtype::ALL.len());
        assert_eq!(counts.input.len(), InputMode::ALL.len());
        assert!(counts.way.len() == 8 && counts.graphs > 0 && report.drawn_again > 0, "{report:?}");
        for of_kind in [&counts.dtype, &counts.algorithm, &counts.input] {
            assert_eq!(of_kind.values().sum::<u64>(), counts.calls);
        }
        let text = report.text();
        assert!(text.contains("seed 1\n") && text.contains("Every element right: "), "{text}");
    }
}

#[test]
fn a_call_is_done_as_was_drawn() {
    let Command::Stress(args) =
        Args::parse_from("allfold stress --mixed --backend cpu --ranks 2 --max-bytes 4K --seed 3".split(' ')).command
    else {
        panic!("asked for stress")
    };
    let settings = Settings::new(&args).expect("possible");
    let mut comm = settings.communicator().expect("possible");
    let memory = Memory::new(2, &[], settings.most_bytes).expect("a few pages");
    let mut draw = settings.draw(&comm);
    for call in (0..50).flat_map(|_| draw.batch().expect("there are such calls").calls) {
        if call.dtype == Dtype::F32 {
            let buffers = memory.buffers::<f32>(&call, Part::InputToOutput, 0);
            let plan = comm.all_reduce_with(&buffers, ReduceOp::Sum, &call.options).expect("it was not refused");
            assert_eq!(plan, call.plan);
        }
    }
}

/// The first wrong call of a run in which `number` was spoiled.
fn first_of(report: &Report, number: u64) -> &FirstCall {
    let first = report.first_wrong.as_ref().unwrap_or_else(|| panic!("call {number} passed: {report:?}"));
    assert_eq!(first.call, number, "{report:?}");
    first
}

#[test]
fn a_result_that_was_overwritten_is_found_and_told_of_and_found_again() {
    let (mut eager, mut replayed) = (0, 0);
    for (number, ranks) in [(1, 2), (33, 3), (77, 2), (120, 2), (121, 3), (150, 2)] {
        let report = report(&format!("--ranks {ranks} --seed 42 --max-bytes 4K --spoil-call {number} --calls 300"));
        let first = first_of(&report, number);
        // The run ends there, and no more than was overwritten is wrong.
        assert!(report.wrong > 0 && report.wrong <= END_ELEMS * ranks && report.counts.calls < 300, "{report:?}");
        assert!(first.first_wrong.element + END_ELEMS >= first.elements, "{first:?}");
        match first.replay {
            None => eager += 1,
            Some((replay, _)) => replayed += u64::from(replay > 1),
        }
        let text = report.text();
        for part in [format!("call {number} of seed 42: "), format!("of call {number}: expected"), first.again.clone()]
        {
            assert!(text.contains(&part), "{part}: {text}");
        }
        assert!(text.contains("WRONG: "), "{text}");
        // Which of the elements is the first depends on the threads.
        let again = run_words(first.again.split_whitespace());
        let again = first_of(&again, number);
        let same = FirstCall { first_wrong: first.first_wrong.clone(), story: first.story.clone(), ..again.clone() };
        assert_eq!(&same, first);
    }
    assert!(eager > 0 && replayed > 0, "{eager} eager, {replayed} in later replays");
}

#[test]
fn nothing_is_wrong_where_the_call_to_overwrite_does_not_come() {
    assert_eq!(report("--ranks 2 --seed 42 --max-bytes 4K --spoil-call 1000 --calls 20").wrong, 0);
}

#[test]
fn json_has_the_seed_the_counts_and_the_call() {
    let report = report("--ranks 2 --seed 42 --max-bytes 4K --spoil-call 33");
    let json: serde_json::Value = serde_json::from_str(&report.json().expect("serialises")).expect("is JSON");
    assert_eq!((json["seed"].as_u64(), json["calls"].as_u64()), (Some(42), Some(report.counts.calls)));
    assert!(json["calls_a_second"].as_f64().is_some_and(|rate| rate > 0.0) && json["dtype"]["bf16"].is_u64(), "{json}");
    let call = &json["first_wrong"];
    assert_eq!((call["call"].as_u64(), call["first_wrong"]["call"].as_u64()), (Some(33), Some(33)));
    assert!(call["again"].as_str().is_some_and(|again| again.contains("--seed 42")), "{json}");
}
