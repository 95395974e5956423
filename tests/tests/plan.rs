//! Requests and plans: pure functions of facts that are equal on all ranks.

use allfold::tuning::{CPU_ROWS, ROWS, Row};
use allfold::{
    Algorithm, CallOptions, Dtype, Error, InputMode, Limits, MAX_BLOCKS, Options, Plan, Preset, Request, Soundness,
};

/// A GPU with room for everything.
const LIMITS: Limits =
    Limits { world: 4, max_blocks: 132, max_threads: 1024, staging_bytes: 1 << 40, scratch_bytes: 1 << 40 };

fn limits(world: u32) -> Limits {
    Limits { world, ..LIMITS }
}

fn request(dtype: Dtype, bytes: u64, in_place: bool) -> Request {
    Request { dtype, elems: bytes / dtype.bytes() as u64, bytes, in_place, aligned: true }
}

fn all_inputs() -> Options {
    Options { inputs: InputMode::ALL.to_vec(), ..Options::default() }
}

fn choose(world: u32, request: &Request, call: &CallOptions) -> Plan {
    choose_by(ROWS, world, request, call)
}

fn choose_by(rows: &[Row], world: u32, request: &Request, call: &CallOptions) -> Plan {
    Plan::choose(request, call, &all_inputs(), &limits(world), rows).unwrap()
}

/// The tables.
const TABLES: [&[Row]; 2] = [ROWS, CPU_ROWS];

/// Numbers of bytes at which a choice may change, and their neighbours by one element.
fn edges() -> Vec<u64> {
    let limits = TABLES.into_iter().flatten().map(|row| row.up_to_bytes).filter(|&bytes| bytes < 1 << 40);
    let powers = (4..36).map(|power| 1 << power);
    let mut all: Vec<u64> = limits.chain(powers).flat_map(|bytes| [bytes - 4, bytes, bytes + 4]).collect();
    all.sort();
    all
}

#[test]
fn every_row_is_chosen_by_some_call() {
    for rows in TABLES {
        let mut left: Vec<&Row> = rows.iter().collect();
        for world in 2..=8 {
            for bytes in edges() {
                let plan = choose_by(rows, world, &request(Dtype::F32, bytes, false), &CallOptions::default());
                let row = rows.iter().find(|row| world <= row.up_to_ranks && bytes <= row.up_to_bytes).unwrap();
                assert_eq!(plan.algorithm, row.algorithm, "{bytes} bytes by {row:?}");
                // No block without work, and where there is enough for all, the whole of the row's grid.
                let part = if plan.algorithm == Algorithm::TwoShot { u64::from(world) } else { 1 };
                let packs = bytes.div_ceil(16).div_ceil(part);
                let most_blocks = row.blocks.min(LIMITS.max_blocks);
                assert!(plan.threads <= row.threads && plan.blocks <= most_blocks, "{plan:?} by {row:?}");
                assert!(u64::from(plan.blocks - 1) * u64::from(plan.threads) < packs, "{plan:?} for {packs} packs");
                if packs >= u64::from(most_blocks) * u64::from(row.threads) {
                    assert_eq!((plan.blocks, plan.threads), (most_blocks, row.threads), "{bytes} bytes by {row:?}");
                }
                left.retain(|other| *other != row);
            }
        }
        assert!(left.is_empty(), "never chosen: {left:?}");
    }
}

#[test]
fn every_world_size_and_every_length_has_a_row() {
    for world in 1..=8 {
        for bytes in edges().into_iter().chain([0, 1 << 50, u64::MAX / 2]) {
            for dtype in Dtype::ALL {
                let elems = bytes / dtype.bytes() as u64;
                let request = Request { dtype, elems, bytes, in_place: false, aligned: true };
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
fn equal_byte_counts_are_done_alike_whatever_the_dtype() {
    for world in 1..=8 {
        for bytes in edges() {
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
    for world in 2..=8 {
        for algorithm in Algorithm::ALL {
            for input in InputMode::ALL {
                for (blocks, threads) in [(None, None), (Some(1), Some(1)), (Some(36), Some(96)), (Some(132), None)] {
                    let call = CallOptions { algorithm: Some(algorithm), input: Some(input), blocks, threads };
                    for bytes in [4, 4096, 1 << 30] {
                        let plan = choose(world, &request(Dtype::F32, bytes, false), &call);
                        assert_eq!((plan.algorithm, plan.input), (algorithm, input));
                        assert!(blocks.is_none_or(|asked| asked == plan.blocks), "{plan:?}");
                        assert!(threads.is_none_or(|asked| asked == plan.threads), "{plan:?}");
                        assert_eq!(Preset::Allfold.protocol(algorithm, input), Some(plan.protocol));
                        assert_eq!(plan.soundness(), Soundness::Sound, "{plan:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn no_grid_is_larger_than_what_can_be_resident() {
    for (max_blocks, option) in [(1, None), (3, None), (132, Some(2)), (132, Some(1000)), (MAX_BLOCKS as u32, None)] {
        let options = Options { max_blocks: option, ..all_inputs() };
        let most = max_blocks.min(option.unwrap_or(u32::MAX));
        let limits = Limits { max_blocks, max_threads: 256, ..LIMITS };
        for bytes in edges() {
            let request = request(Dtype::F16, bytes, false);
            let plan = Plan::choose(&request, &CallOptions::default(), &options, &limits, ROWS).unwrap();
            assert!(plan.blocks <= most && plan.threads <= 256, "{plan:?}");
        }
        for (blocks, threads) in [(most + 1, 1), (0, 1), (1, 0), (1, 257)] {
            let call = CallOptions { blocks: Some(blocks), threads: Some(threads), ..CallOptions::default() };
            let error = Plan::choose(&request(Dtype::F32, 64, false), &call, &options, &limits, ROWS).unwrap_err();
            let wanted = (blocks, threads, most, 256);
            assert!(
                matches!(error, Error::Grid { blocks, threads, max_blocks, max_threads }
                    if (blocks, threads, max_blocks, max_threads) == wanted),
                "{error:?}, not {wanted:?}"
            );
        }
    }
}

#[test]
fn in_place_takes_what_is_safe_or_is_refused() {
    for world in 2..=8 {
        for bytes in edges() {
            let request = request(Dtype::F32, bytes, true);
            let plan = choose(world, &request, &CallOptions::default());
            assert_eq!((plan.algorithm, plan.input), (Algorithm::TwoShot, InputMode::Registered), "{bytes} bytes");
            let one_shot = Options { algorithms: vec![Algorithm::OneShot], ..Options::default() };
            let error = Plan::choose(&request, &CallOptions::default(), &one_shot, &limits(world), ROWS).unwrap_err();
            assert!(matches!(error, Error::InPlace { algorithm: Algorithm::OneShot }), "{error:?}");
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
    let row = |preset| Algorithm::ALL.map(|algorithm| InputMode::ALL.map(|input| known(preset, algorithm, input)));
    // One-shot and two-shot: registered, copied before the kernel, copied by it.
    assert_eq!(row(Preset::Allfold), [["sound", "sound", "sound"], ["sound", "sound", "sound"]]);
    assert_eq!(row(Preset::Vllm), [["rests", "rests", "none"], ["rests", "rests", "none"]]);
    assert_eq!(row(Preset::Sglang), [["not known", "none", "not known"], ["rests", "none", "not known"]]);
    assert_eq!(row(Preset::Trtllm), [["none", "sound", "sound"], ["none", "sound", "sound"]]);
    assert_eq!(row(Preset::Minimal), [["not known", "not known", "not known"], ["rests", "rests", "not known"]]);
}

#[test]
fn room_is_counted_in_whole_packs_and_64_bits() {
    let call = |algorithm, input| CallOptions { algorithm: Some(algorithm), input: Some(input), ..Default::default() };
    for staging_bytes in [1u64 << 31, (1 << 32) + 16, 1 << 40] {
        let limits = Limits { staging_bytes, ..LIMITS };
        let plan = |bytes: u64| {
            let request = request(Dtype::F16, bytes, false);
            Plan::choose(&request, &call(Algorithm::OneShot, InputMode::Memcpy), &all_inputs(), &limits, ROWS)
        };
        for bytes in [staging_bytes - 16, staging_bytes - 2, staging_bytes] {
            plan(bytes).unwrap();
        }
        for bytes in [staging_bytes + 2, staging_bytes + 16] {
            let error = plan(bytes).unwrap_err();
            let needed = staging_bytes + 16;
            assert!(
                matches!(error, Error::Capacity { what: "staging", needed_bytes, capacity_bytes }
                    if (needed_bytes, capacity_bytes) == (needed, staging_bytes)),
                "{error:?}"
            );
        }
    }
    // A two-shot needs the largest part: of 4 ranks a quarter, rounded up to a pack.
    let limits = Limits { scratch_bytes: 1 << 30, ..LIMITS };
    let two_shot = call(Algorithm::TwoShot, InputMode::Registered);
    Plan::choose(&request(Dtype::F32, 1 << 32, false), &two_shot, &all_inputs(), &limits, ROWS).unwrap();
    let error = Plan::choose(&request(Dtype::F32, (1 << 32) + 4, false), &two_shot, &all_inputs(), &limits, ROWS);
    assert!(
        matches!(error, Err(Error::Capacity { what: "scratch", needed_bytes, capacity_bytes: 0x4000_0000 })
            if needed_bytes == (1 << 30) + 16),
        "{error:?}"
    );
}

#[test]
fn what_does_not_fit_one_algorithm_is_done_by_the_other() {
    let large = request(Dtype::F32, LIMITS.scratch_bytes * 9, false);
    let plan = choose(4, &large, &CallOptions::default());
    assert_eq!(plan.algorithm, Algorithm::OneShot, "a one-shot needs no scratch");
    // In place nothing else will do.
    let in_place = Request { in_place: true, ..large };
    let refused = Plan::choose(&in_place, &CallOptions::default(), &all_inputs(), &limits(4), ROWS);
    assert!(matches!(refused, Err(Error::Capacity { what: "scratch", .. })), "{refused:?}");
    // Sizes at the end of the number range are refused or planned, and never a panic.
    let huge = Request { elems: u64::MAX / 2, bytes: u64::MAX - 1, dtype: Dtype::F16, ..large };
    assert!(Plan::choose(&huge, &CallOptions::default(), &all_inputs(), &limits(4), ROWS).is_ok());
}
