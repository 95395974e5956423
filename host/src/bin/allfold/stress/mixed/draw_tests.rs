//! Tests of `draw.rs`.

use std::collections::HashSet;

use allfold::{Algorithm, InputMode, tuning};

use super::*;

/// Of ranks on GPUs, whose grids are larger than those of CPU ranks, and who have streams.
fn facts(world: u32) -> Facts {
    let most_bytes = 1 << 20;
    Facts {
        options: Options { inputs: InputMode::ALL.to_vec(), capacity_bytes: most_bytes, ..Options::default() },
        limits: Limits {
            world,
            max_blocks: 66,
            max_threads: [512; Algorithm::ALL.len()],
            staging_bytes: most_bytes,
            scratch_bytes: most_bytes,
            landing_bytes: 1 << 18,
            reaches_buffers: true,
        },
        rows: tuning::ROWS,
        most_bytes,
        streams: 2,
    }
}

fn batches(seed: u64, world: u32, count: usize) -> Vec<Batch> {
    let mut draw = Draw::new(seed, facts(world));
    (0..count).map(|_| draw.batch().expect("there are such calls")).collect()
}

#[test]
fn a_seed_gives_its_calls_and_another_seed_others() {
    assert_eq!(batches(7, 2, 200), batches(7, 2, 200));
    assert_ne!(batches(7, 2, 1)[0].calls, batches(8, 2, 1)[0].calls);
}

#[test]
fn every_kind_of_call_comes() {
    for world in [2, 3, 8] {
        let all = batches(1, world, 1000);
        let calls: Vec<_> = all.iter().flat_map(|batch| &batch.calls).collect();
        let algorithms = Algorithm::ALL.into_iter().filter(|algorithm| algorithm.takes(world));
        for (dtype, algorithm) in algorithms.flat_map(|a| Options::DTYPES.map(|dtype| (dtype, a))) {
            let of_kind = || calls.iter().filter(|call| (call.dtype, call.plan.algorithm) == (dtype, algorithm));
            for input in InputMode::ALL {
                // What has no form for this input is never made.
                let possible = facts(world).options.form(algorithm, input).is_some();
                assert_eq!(
                    of_kind().any(|call| call.plan.input == input),
                    possible,
                    "{dtype:?} {algorithm:?} {input:?}"
                );
            }
            let is_asked = |call: &&&Call| call.options.algorithm.is_some();
            assert!(of_kind().any(|call| is_asked(&call)), "{dtype:?} {algorithm:?}");
        }
        let any = |is: &dyn Fn(&Call) -> bool| calls.iter().any(|call| is(call)) && !calls.iter().all(|call| is(call));
        assert!(
            any(&|call| call.in_place()) && any(&|call| call.is_misaligned()) && any(&|call| call.pause_micros > 0)
        );
        assert!(any(&|call| call.options.algorithm.is_none()) && any(&|call| call.options.blocks.is_some()));
        let some = |is: &dyn Fn(&Batch) -> bool| all.iter().any(is) && !all.iter().all(is);
        assert!(some(&|batch| batch.way == Way::Eager) && some(&|batch| batch.streams == 1));
        assert!(some(&|batch| matches!(batch.way, Way::Graph { captured_on, .. } if captured_on != batch.streams)));
        let late: HashSet<_> = all.iter().filter_map(|batch| Some(batch.late?.rank)).collect();
        assert_eq!(late.len(), world as usize);
    }
}

#[test]
fn sizes_are_small_and_large_at_powers_of_two_and_beside_them() {
    let calls: Vec<_> = batches(2, 2, 1000).into_iter().flat_map(|batch| batch.calls).collect();
    let bytes = |call: &Call| call.elems * call.dtype.bytes() as u64;
    assert!(calls.iter().all(|call| (1..=1 << 20).contains(&bytes(call))));
    let count = |is: &dyn Fn(&Call) -> bool| calls.iter().filter(|call| is(call)).count();
    let wanted: [&dyn Fn(&Call) -> bool; 6] = [
        &|call| call.elems == 1,
        &|call| bytes(call) < 64,
        &|call| bytes(call) > 1 << 19,
        &|call| call.elems.is_power_of_two(),
        &|call| (call.elems + 1).is_power_of_two(),
        &|call| !bytes(call).is_multiple_of(16),
    ];
    for (at, is) in wanted.into_iter().enumerate() {
        assert!(count(is) > calls.len() / 200, "{at}: {} of {}", count(is), calls.len());
    }
}

#[test]
fn no_rank_gets_more_than_it_has() {
    for call in batches(3, 3, 1000).into_iter().flat_map(|batch| batch.calls) {
        assert!(call.shifts[..3].as_flattened().iter().all(|&shift| u64::from(shift) < SHIFTS));
        assert!(call.shifts[3..].as_flattened().iter().all(|&shift| shift == 0));
        assert!(!call.in_place() || call.shifts.iter().all(|[input, output]| input == output));
        assert!((1..=66).contains(&call.plan.blocks) && (1..=512).contains(&call.plan.threads), "{call:?}");
        assert!(call.options.blocks.is_none_or(|blocks| blocks == call.plan.blocks));
    }
}

#[test]
fn a_call_is_found_by_its_number() {
    let all = batches(4, 2, 50);
    let numbers = all.iter().flat_map(|batch| (0..batch.made()).map(move |at| (batch, at)));
    for (number, (batch, at)) in (1..).zip(numbers) {
        assert_eq!(Draw::new(4, facts(2)).find(number).expect("it was made"), (batch.clone(), at));
    }
    assert!(Draw::new(4, facts(2)).find(0).is_err());
}

#[test]
fn where_no_call_is_possible_that_is_said_by_the_reason() {
    let facts = facts(3);
    let options = Options { algorithms: vec![Algorithm::Exchange], ..facts.options };
    let error = Draw::new(1, Facts { options, ..facts }).batch().expect_err("exchange is for two ranks");
    assert!(matches!(error.downcast_ref(), Some(allfold::Error::NotForWorld { world: 3, .. })), "{error:?}");
}
