//! Plans at their limits: grids, room, sizes at the end of the number range.

mod planning;

use allfold::tuning::ROWS;
use allfold::{Algorithm, CallOptions, Dtype, Error, InputMode, Limits, MAX_BLOCKS, Options, Plan, Request};
use planning::{LIMITS, all_inputs, asks, edges, limits, only, request};

#[test]
fn b35_no_grid_is_larger_than_what_can_be_resident() {
    for (max_blocks, option) in
        [(1, None), (3, None), (132, Some(2)), (132, Some(1000)), (MAX_BLOCKS as u32, None), (2, None)]
    {
        let options = Options { max_blocks: option, ..all_inputs() };
        let most = max_blocks.min(option.unwrap_or(u32::MAX));
        let limits = Limits { max_blocks, max_threads: [256; 6], ..LIMITS };
        for bytes in edges() {
            let request = request(Dtype::F16, bytes, false);
            let plan = Plan::choose(&request, &CallOptions::default(), &options, &limits, ROWS).unwrap();
            assert!(plan.blocks <= most && plan.threads <= 256, "{plan:?}");
            for push in [Algorithm::OneShotPush, Algorithm::TwoShotPush] {
                let call = asks(push, InputMode::Registered);
                let plan = Plan::choose(&request, &call, &options, &limits, ROWS).unwrap();
                // The block that moves no data comes on top, but where there is room for one alone.
                assert!((most.min(2)..=most).contains(&plan.blocks) && plan.threads <= 256, "{plan:?}");
            }
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
fn b35_each_algorithm_has_its_own_limit_of_threads() {
    let max_threads = [32, 64, 96, 128, 160, 192];
    let limits = Limits { world: 2, max_threads, ..LIMITS };
    assert_eq!(limits.threads_of_all(), 32);
    for (algorithm, most) in Algorithm::ALL.into_iter().zip(max_threads) {
        assert_eq!(limits.threads_of(algorithm), most);
        let call = asks(algorithm, InputMode::Registered);
        let request = request(Dtype::F32, 1 << 24, false);
        let plan = Plan::choose(&request, &call, &all_inputs(), &limits, ROWS).unwrap();
        assert_eq!((plan.algorithm, plan.threads), (algorithm, most));
        let call = CallOptions { threads: Some(most + 1), ..call };
        let error = Plan::choose(&request, &call, &all_inputs(), &limits, ROWS).unwrap_err();
        assert!(matches!(error, Error::Grid { max_threads, .. } if max_threads == most), "{error:?}");
    }
}

#[test]
fn without_room_for_a_block_a_call_is_refused() {
    let none = Limits { max_blocks: 0, ..LIMITS };
    let no_threads = Limits { max_threads: [0; 6], ..LIMITS };
    for (limits, option) in [(none, None), (LIMITS, Some(0)), (no_threads, None)] {
        let options = Options { max_blocks: option, ..all_inputs() };
        for algorithm in Algorithm::ALL.into_iter().filter(|algorithm| algorithm.takes(limits.world)) {
            for bytes in edges() {
                let call = asks(algorithm, InputMode::Registered);
                let plan = Plan::choose(&request(Dtype::F32, bytes, false), &call, &options, &limits, ROWS);
                assert!(matches!(plan, Err(Error::Grid { .. })), "{plan:?}");
            }
        }
    }
}

#[test]
fn b59_b62_room_is_counted_in_whole_packs_and_64_bits() {
    for staging_bytes in [1u64 << 31, (1 << 32) + 16, 1 << 40] {
        let limits = Limits { staging_bytes, ..LIMITS };
        let plan = |bytes: u64| {
            let request = request(Dtype::F16, bytes, false);
            Plan::choose(&request, &asks(Algorithm::OneShot, InputMode::Memcpy), &all_inputs(), &limits, ROWS)
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
    let two_shot = asks(Algorithm::TwoShot, InputMode::Registered);
    Plan::choose(&request(Dtype::F32, 1 << 32, false), &two_shot, &all_inputs(), &limits, ROWS).unwrap();
    let error = Plan::choose(&request(Dtype::F32, (1 << 32) + 4, false), &two_shot, &all_inputs(), &limits, ROWS);
    assert!(
        matches!(error, Err(Error::Capacity { what: "scratch", needed_bytes, capacity_bytes: 0x4000_0000 })
            if needed_bytes == (1 << 30) + 16),
        "{error:?}"
    );
}

/// What a push stores into a slot ends where the slot does: one pack beyond what the limit says.
#[test]
fn b62_what_is_pushed_fits_its_slot() {
    let worlds = [Dtype::F32, Dtype::I32].into_iter().flat_map(|dtype| (2..=8).map(move |world| (dtype, world)));
    for (dtype, world, landing_packs) in
        worlds.flat_map(|(dtype, world)| [0, 1, 2, 3, 64, 65].map(|packs| (dtype, world, packs)))
    {
        let limits = Limits { landing_bytes: 16 * landing_packs, ..limits(world) };
        let each = u64::from(dtype.landing_packs());
        let plan = |algorithm, packs: u64| {
            let request = request(dtype, 16 * packs, false);
            Plan::choose(&request, &asks(algorithm, InputMode::Registered), &all_inputs(), &limits, ROWS)
        };
        for packs in 0..700_u64 {
            let part = packs.div_ceil(u64::from(world));
            let fits = [
                (Algorithm::OneShotPush, each * packs <= landing_packs),
                (Algorithm::TwoShotPush, 2 * each * part <= landing_packs + 1),
            ];
            // Where the limit is that of a slot, two parts are one pack more than the whole at most.
            for (algorithm, fits) in fits {
                match plan(algorithm, packs) {
                    Ok(_) => assert!(fits || packs == 0, "{algorithm:?} of {packs} packs in {landing_packs}"),
                    Err(Error::Capacity { what: "landing", needed_bytes, capacity_bytes }) => {
                        assert!(
                            !fits && needed_bytes > capacity_bytes,
                            "{algorithm:?} of {packs} packs in {landing_packs}"
                        );
                    }
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
    }
}

#[test]
fn b61_what_does_not_fit_one_algorithm_is_done_by_another() {
    let large = request(Dtype::F32, LIMITS.scratch_bytes * 9, false);
    let choose = |request: &Request, options: &Options| {
        Plan::choose(request, &CallOptions::default(), options, &limits(4), ROWS)
    };
    let pulls = only(&Algorithm::OF_ANY_PROTOCOL);
    let plan = choose(&large, &pulls).unwrap();
    assert_eq!(plan.algorithm, Algorithm::OneShot, "a one-shot needs no scratch");
    // In place a one-shot will not do, and a one-pass will.
    let in_place = Request { in_place: true, ..large };
    let refused = choose(&in_place, &pulls);
    assert!(matches!(refused, Err(Error::Capacity { what: "scratch", .. })), "{refused:?}");
    assert_eq!(choose(&in_place, &all_inputs()).unwrap().algorithm, Algorithm::OnePass);
    // Sizes at the end of the number range are refused or planned, and never a panic.
    let huge = Request { elems: u64::MAX / 2, bytes: u64::MAX - 1, dtype: Dtype::F16, ..large };
    assert!(choose(&huge, &pulls).is_ok() && choose(&huge, &all_inputs()).is_ok());
    for algorithm in Algorithm::ALL {
        let plan = choose(&huge, &only(&[algorithm]));
        assert!(matches!(plan, Ok(_) | Err(Error::Capacity { .. } | Error::NotForWorld { .. })), "{plan:?}");
    }
}
