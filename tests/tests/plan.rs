//! Plans: pure functions of facts that are equal on all ranks.

mod planning;

use allfold::tuning::{ROWS, Row, row};
use allfold::{
    Algorithm, CallOptions, Dtype, Error, InputMode, Limits, Options, Plan, Preset, ReduceOp, Request, Soundness,
};
use planning::{LIMITS, TABLES, all_inputs, any_bytes, asks, choose, choose_by, edges, limits, only, request};

/// Packs that the threads of a plan share.
fn shared_packs(plan: &Plan, world: u32, bytes: u64) -> u64 {
    let of_all = match plan.algorithm {
        Algorithm::OneShot | Algorithm::OneShotPush => 1,
        Algorithm::TwoShot | Algorithm::TwoShotPush | Algorithm::OnePass | Algorithm::Exchange => world,
    };
    bytes.div_ceil(16).div_ceil(of_all.into())
}

#[test]
fn every_row_is_chosen_by_some_call() {
    for rows in TABLES {
        let mut left: Vec<&Row> = rows.iter().collect();
        for (world, algorithm) in (2..=8).flat_map(|world| Algorithm::ALL.map(|algorithm| (world, algorithm))) {
            for bytes in edges() {
                let (request, call) = (request(Dtype::F32, bytes, false), CallOptions::default());
                let plan = Plan::choose(&request, &call, &only(&[algorithm]), &limits(world), rows);
                let Some(row) =
                    row(rows, world, Dtype::Bf16, bytes, |a| a == algorithm).filter(|_| algorithm.takes(world))
                else {
                    continue;
                };
                let plan = plan.unwrap();
                assert_eq!(plan.algorithm, algorithm);
                // No block without work, and where there is enough for all, the whole of the row's grid. A push has one
                // block more, which moves no data.
                let packs = shared_packs(&plan, world, bytes);
                let idle = u32::from(algorithm.pushes());
                let most = row.blocks.min(LIMITS.max_blocks - idle);
                let (busy, threads) = (plan.blocks - idle, plan.threads);
                assert!(threads <= row.threads && (1..=most).contains(&busy), "{plan:?} by {row:?}");
                assert!(u64::from(busy - 1) * u64::from(threads) < packs, "{plan:?} for {packs} packs");
                if packs >= u64::from(most) * u64::from(row.threads) {
                    assert_eq!((busy, threads), (most, row.threads), "{bytes} bytes by {row:?}");
                }
                left.retain(|other| **other != row);
            }
        }
        assert!(left.is_empty(), "never chosen: {left:?}");
    }
}

/// What is chosen is the first row's that is allowed; who asks for it gets the same plan.
#[test]
fn what_is_chosen_is_allowed() {
    let limits =
        |world| Limits { landing_bytes: 4 << 20, scratch_bytes: 8 << 20, staging_bytes: 16 << 20, ..limits(world) };
    let mut chosen = Vec::new();
    for (world, rows) in (2..=8).flat_map(|world| TABLES.map(|rows| (world, rows))) {
        for (input, in_place) in InputMode::ALL.into_iter().flat_map(|input| [(input, false), (input, true)]) {
            for bytes in edges() {
                let request = request(Dtype::Bf16, bytes, in_place);
                let choose = |call: &CallOptions| Plan::choose(&request, call, &all_inputs(), &limits(world), rows);
                let asked = |algorithm| choose(&asks(algorithm, input)).ok();
                let any = CallOptions { input: Some(input), ..CallOptions::default() };
                match choose(&any) {
                    Ok(plan) => {
                        assert_eq!(asked(plan.algorithm), Some(plan));
                        let row = row(rows, world, Dtype::Bf16, bytes, |a| asked(a).is_some());
                        assert!(row.is_none_or(|row| row.algorithm == plan.algorithm), "{plan:?}, not by {row:?}");
                        chosen.push((plan.algorithm, input, in_place));
                    }
                    Err(Error::Capacity { .. }) => assert!(Algorithm::ALL.into_iter().all(|a| asked(a).is_none())),
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
    }
    for (algorithm, input, in_place) in chosen {
        assert!(algorithm != Algorithm::OnePass || input == InputMode::Registered, "{algorithm:?} {input:?}");
        let reads_output = [Algorithm::Exchange, Algorithm::OneShot].contains(&algorithm) && !input.staged();
        assert!(!(in_place && reads_output), "{algorithm:?} {input:?}");
    }
}

#[test]
fn b85_b86_b88_every_world_size_and_every_length_has_a_row() {
    for world in 1..=8 {
        for bytes in edges().into_iter().chain(any_bytes()).chain([0, 1 << 50, u64::MAX / 2]) {
            for dtype in Options::DTYPES {
                let elems = bytes / dtype.bytes() as u64;
                let request = Request { dtype, op: ReduceOp::Sum, elems, bytes, in_place: false, aligned: true };
                let limits = Limits { staging_bytes: u64::MAX, scratch_bytes: u64::MAX, ..limits(world) };
                for rows in TABLES {
                    let plan = Plan::choose(&request, &CallOptions::default(), &all_inputs(), &limits, rows).unwrap();
                    assert!((1..=limits.max_blocks).contains(&plan.blocks) && plan.threads >= 1, "{plan:?}");
                }
            }
        }
    }
}

#[test]
fn b22_equal_byte_counts_are_done_alike_whatever_the_dtype() {
    for world in 1..=8 {
        for bytes in edges().into_iter().chain(any_bytes()) {
            for in_place in [false, true] {
                for rows in TABLES {
                    let by = |dtype| choose_by(rows, world, &request(dtype, bytes, in_place), &CallOptions::default());
                    assert_eq!(by(Dtype::F32), by(Dtype::F16), "{world} ranks, {bytes} bytes");
                    assert_eq!(by(Dtype::F32), by(Dtype::Bf16), "{world} ranks, {bytes} bytes");
                }
            }
        }
    }
}

/// A push of i32 moves a flag beside each word: it gives way to what moves none at fewer bytes, and fills a slot at half.
#[test]
fn a_push_of_integers_ends_sooner() {
    let by =
        |world, bytes| choose_by(ROWS, world, &request(Dtype::I32, bytes, false), &CallOptions::default()).algorithm;
    for (bytes, algorithm) in [
        (4, Algorithm::OneShotPush),
        (1536 << 10, Algorithm::OneShotPush),
        ((1536 << 10) + 4, Algorithm::OneShot),
        (4 << 20, Algorithm::OneShot),
        ((4 << 20) + 4, Algorithm::Exchange),
    ] {
        assert_eq!(by(2, bytes), algorithm, "2 ranks, {bytes} bytes");
    }
    for world in [4, 8] {
        assert_eq!(by(world, 1 << 20), Algorithm::TwoShotPush, "{world} ranks");
        assert!(!by(world, (1 << 20) + 4).pushes(), "{world} ranks");
    }
    let limits = Limits { landing_bytes: 64, ..limits(2) };
    let call = CallOptions { algorithm: Some(Algorithm::OneShotPush), ..CallOptions::default() };
    let choose = |dtype, bytes| {
        Plan::choose(&request(dtype, bytes, false), &call, &all_inputs(), &limits, ROWS).map(|plan| plan.algorithm)
    };
    assert!(choose(Dtype::F32, 64).is_ok() && choose(Dtype::I32, 32).is_ok());
    let refused = |result| matches!(result, Err(Error::Capacity { needed_bytes: 96, capacity_bytes: 64, .. }));
    assert!(refused(choose(Dtype::I32, 48)));
}

#[test]
fn alignment_changes_nothing() {
    for world in 1..=8 {
        for bytes in edges() {
            let aligned = request(Dtype::Bf16, bytes, false);
            let not = Request { aligned: false, ..aligned };
            let call = CallOptions::default();
            assert_eq!(choose(world, &aligned, &call), choose(world, &not, &call));
        }
    }
}

#[test]
fn what_is_asked_for_is_done() {
    let options = all_inputs();
    for (world, algorithm) in (2..=8).flat_map(|world| Algorithm::ALL.map(|algorithm| (world, algorithm))) {
        for input in InputMode::ALL {
            for (blocks, threads) in [(None, None), (Some(1), Some(1)), (Some(36), Some(96)), (Some(132), None)] {
                let call = CallOptions { blocks, threads, ..asks(algorithm, input) };
                for bytes in [4, 4096, 1 << 30] {
                    let request = request(Dtype::F32, bytes, false);
                    let plan = Plan::choose(&request, &call, &options, &limits(world), ROWS);
                    let (plan, protocol) = match (plan, options.form(algorithm, input)) {
                        (Ok(plan), Some(protocol)) if algorithm.takes(world) => (plan, protocol),
                        (Err(Error::NotForWorld { .. }), Some(_)) if !algorithm.takes(world) => continue,
                        (Err(Error::NoSuchForm { .. }), None) => continue,
                        other => panic!("{other:?} by {call:?}"),
                    };
                    assert_eq!((plan.algorithm, plan.input, plan.protocol), (algorithm, input, protocol));
                    assert!(blocks.is_none_or(|asked| asked == plan.blocks), "{plan:?}");
                    assert!(threads.is_none_or(|asked| asked == plan.threads), "{plan:?}");
                    assert_eq!(plan.soundness(), Soundness::Sound, "{plan:?}");
                    assert_eq!(plan.stages(), input == InputMode::Memcpy && algorithm.has_any_protocol(), "{plan:?}");
                }
            }
        }
    }
}

/// Banks in turn need a start barrier between two calls that are staged, which a push has not.
#[test]
fn who_may_push_keeps_one_staging_bank() {
    for input in InputMode::ALL {
        for algorithm in Algorithm::OF_ANY_PROTOCOL {
            let form = |declared: &[Algorithm]| only(declared).form(algorithm, input).unwrap();
            assert_eq!(form(&Algorithm::OF_ANY_PROTOCOL), Preset::Allfold.protocol(algorithm, input).unwrap());
            assert_eq!(form(&Algorithm::OF_ANY_PROTOCOL).alternates(), input.staged());
            for push in [Algorithm::OneShotPush, Algorithm::TwoShotPush] {
                let pair = [algorithm, push];
                let kept = only(&pair).form(algorithm, input).unwrap();
                assert!(!kept.alternates());
                assert_eq!(kept.soundness(algorithm, input), Soundness::Sound, "{kept:?}");
            }
        }
    }
}

#[test]
fn in_place_takes_what_is_safe_or_is_refused() {
    for world in 2..=8 {
        for bytes in edges() {
            let request = request(Dtype::F32, bytes, true);
            let pulls = Plan::choose(
                &request,
                &CallOptions::default(),
                &only(&Algorithm::OF_ANY_PROTOCOL),
                &limits(world),
                ROWS,
            );
            assert_eq!(pulls.unwrap().algorithm, Algorithm::TwoShot, "{bytes} bytes");
            let plan = choose(world, &request, &CallOptions::default());
            for reads in [Algorithm::OneShot, Algorithm::Exchange] {
                assert_ne!(plan.algorithm, reads, "{bytes} bytes");
                let error =
                    Plan::choose(&request, &CallOptions::default(), &only(&[reads]), &limits(world), ROWS).unwrap_err();
                assert!(matches!(error, Error::InPlace { algorithm } if algorithm == reads), "{error:?}");
            }
        }
    }
}

#[test]
fn what_is_known_of_each_form_is_what_the_table_says() {
    let known = |preset: Preset, algorithm, input| match preset.protocol(algorithm, input) {
        None => "none",
        Some(protocol) => match protocol.soundness(algorithm, input) {
            Soundness::Sound => "sound",
            Soundness::RestsOn(_) => "rests",
            Soundness::NotKnown(_) => "not known",
        },
    };
    let row = |preset| {
        Algorithm::OF_ANY_PROTOCOL.map(|algorithm| InputMode::ALL.map(|input| known(preset, algorithm, input)))
    };
    // One-shot and two-shot: registered, copied before the kernel, copied by it.
    assert_eq!(row(Preset::Allfold), [["sound", "sound", "sound"], ["sound", "sound", "sound"]]);
    assert_eq!(row(Preset::Vllm), [["rests", "rests", "none"], ["rests", "rests", "none"]]);
    assert_eq!(row(Preset::Sglang), [["not known", "none", "not known"], ["rests", "none", "not known"]]);
    assert_eq!(row(Preset::Trtllm), [["none", "sound", "sound"], ["none", "sound", "sound"]]);
    assert_eq!(row(Preset::Minimal), [["not known", "not known", "not known"], ["rests", "rests", "not known"]]);
    // Two pushes, one-pass, exchange: ours alone.
    let others = Algorithm::ALL.into_iter().filter(|algorithm| !algorithm.has_any_protocol());
    for (preset, algorithm) in Preset::ALL.into_iter().flat_map(|preset| others.clone().map(move |a| (preset, a))) {
        let wanted = match (preset, algorithm) {
            (Preset::Allfold, Algorithm::OnePass) => ["sound", "none", "none"],
            (Preset::Allfold, _) => ["sound"; 3],
            _ => ["none"; 3],
        };
        assert_eq!(InputMode::ALL.map(|input| known(preset, algorithm, input)), wanted, "{preset:?} {algorithm:?}");
    }
}

#[test]
fn only_what_is_declared_is_planned_and_sums_always_are() {
    for op in ReduceOp::ALL {
        let request = Request { op, ..request(Dtype::F32, 4096, false) };
        let choose = |ops: &[ReduceOp]| {
            let options = Options { ops: ops.to_vec(), ..all_inputs() };
            Plan::choose(&request, &CallOptions::default(), &options, &limits(2), ROWS)
        };
        match choose(&[]) {
            Ok(plan) => assert!(op == ReduceOp::Sum && choose(&[op]).is_ok_and(|it| it == plan)),
            Err(error) => {
                assert!(op != ReduceOp::Sum && choose(&[op]).is_ok());
                assert!(matches!(error, Error::NotDeclared { what, option: "ops" } if what == op.name()), "{error}");
            }
        }
    }
}
