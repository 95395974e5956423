//! Ranks that are threads with communicators of their own, as processes have them: what one does is seen by the test, in time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use allfold::rendezvous::{Rendezvous, local};
use allfold::{Algorithm, CallOptions, Communicator, Error, InputMode, Options, Preset, RankBuffers, ReduceOp};
use allfold_tests::data::mix;
use allfold_tests::suite::sound_forms;
use half::f16;

/// The same on each of `world` ranks.
fn on_ranks(world: u32, options: &Options, body: impl Fn(Communicator, u32) + Sync) {
    std::thread::scope(|scope| {
        for seat in local(world).expect("so many ranks") {
            let body = &body;
            scope.spawn(move || {
                let comm = Communicator::connect_cpu_with(&seat, options.clone()).expect("all come");
                body(comm, seat.rank());
            });
        }
    });
}

/// For small calls of each form.
fn options() -> Options {
    Options {
        inputs: InputMode::ALL.to_vec(),
        capacity_bytes: 1 << 14,
        landing_bytes: Some(1 << 14),
        ..Options::for_processes()
    }
}

/// The forms that use no buffer of a peer's caller.
fn forms(world: u32) -> Vec<(Algorithm, InputMode)> {
    let mut forms = sound_forms(Preset::Allfold, world as usize);
    forms.retain(|(algorithm, input)| input.staged() || algorithm.pushes());
    forms
}

/// Payload and size are the same in all calls: neither tells a call from another.
#[test]
fn b13_b31_nobody_leaves_a_call_before_all_have_entered_it() {
    const CALLS: usize = 60;
    for world in 2..=5 {
        let options = options();
        let forms = forms(world);
        let entered: Vec<_> = (0..CALLS * forms.len()).map(|_| AtomicU32::new(0)).collect();
        on_ranks(world, &options, |mut comm, rank| {
            for (number, entered) in entered.iter().enumerate() {
                // As many in a row by one form, so that no barrier of another hides what this one lacks.
                let (algorithm, input) = forms[number / CALLS];
                let call = CallOptions { algorithm: Some(algorithm), input: Some(input), ..CallOptions::default() };
                // One rank or another is late, by up to 2 ms.
                let any = mix(13, u64::from(rank), number as u64);
                if any.is_multiple_of(u64::from(2 * world)) {
                    std::thread::sleep(Duration::from_micros((any >> 32) % 2000));
                }
                let mut data = [1.0_f32; 300];
                entered.fetch_add(1, Ordering::SeqCst);
                comm.all_reduce_with(&[RankBuffers::in_place(&mut data)], ReduceOp::Sum, &call).expect("all call");
                let there = entered.load(Ordering::SeqCst);
                assert_eq!(there, world, "rank {rank} left call {number}, by {algorithm:?} {input:?}");
                assert_eq!(data, [world as f32; 300], "call {number}, by {algorithm:?} {input:?}");
            }
        });
    }
}

#[test]
fn b104_what_ranks_share_is_in_no_folder() {
    for number in 0..6 {
        let capacity_bytes = 1 << (20 + mix(104, 0, number) % 5);
        let world = 2 + (mix(104, 1, number) % 3) as u32;
        let options = Options { capacity_bytes, ..Options::for_processes() };
        on_ranks(world, &options, |mut comm, rank| {
            let mut data = vec![rank as f32; 1000];
            comm.all_reduce(&[RankBuffers::in_place(&mut data)], ReduceOp::Sum).expect("all call");
            let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc");
            let shared: Vec<_> = maps.lines().filter(|line| line.split_whitespace().nth(1) == Some("rw-s")).collect();
            // A name of no folder: whatever is mounted on /dev/shm, nothing of it is used.
            let ours: Vec<_> = shared.iter().filter(|line| line.contains("/memfd:allfold")).collect();
            assert!(!ours.is_empty(), "{maps}");
            assert!(!maps.contains("/dev/shm"), "{maps}");
            assert!(data.iter().all(|&x| x == (0..world).sum::<u32>() as f32));
        });
    }
}

/// Longer than anything here takes: who gives up only then is too late.
const LONG: Option<Duration> = Some(Duration::from_secs(20));

/// Calls of which each rank waits for something else, by one block, which has to hear what others make before it waits for data.
#[test]
fn b42_ranks_that_wait_for_different_things_are_told_so_at_once() {
    let options = Options { timeout: LONG, ..options() };
    for world in 2..=3 {
        let forms = forms(world);
        for (one, other) in forms.iter().flat_map(|one| forms.iter().map(move |other| (*one, *other))) {
            let begun = Instant::now();
            on_ranks(world, &options, |mut comm, rank| {
                let (algorithm, input) = if rank == 0 { one } else { other };
                let call = CallOptions { algorithm: Some(algorithm), input: Some(input), ..CallOptions::default() };
                let mut data = [1.0_f32; 300];
                // The last generation of the slots of a push is full for the one and not for the other.
                let elems = if rank == 0 { 300 } else { 200 };
                let result = comm.all_reduce_with(&[RankBuffers::in_place(&mut data[..elems])], ReduceOp::Sum, &call);
                assert!(matches!(result, Err(Error::Disagreement { .. })), "{one:?} and {other:?}: {result:?}");
            });
            assert!(
                begun.elapsed() < Duration::from_secs(10),
                "{one:?} and {other:?} of {world}: {:?}",
                begun.elapsed()
            );
        }
    }
}

/// Operations that differ, by every algorithm: else each rank would have a result of its own.
#[test]
fn b42_operations_that_differ_are_told_so() {
    let options = Options { timeout: LONG, ops: ReduceOp::ALL.to_vec(), ..options() };
    for (algorithm, input) in forms(2) {
        for (one, other) in ReduceOp::ALL.into_iter().zip(ReduceOp::ALL.into_iter().cycle().skip(1)) {
            on_ranks(2, &options, |mut comm, rank| {
                let call = CallOptions { algorithm: Some(algorithm), input: Some(input), ..CallOptions::default() };
                let mut data = [1.0_f32; 300];
                let op = if rank == 0 { one } else { other };
                let result = comm.all_reduce_with(&[RankBuffers::in_place(&mut data)], op, &call);
                let Err(Error::Disagreement { what, .. }) = &result else { panic!("{algorithm:?} {op:?}: {result:?}") };
                assert!(what.ends_with("its operation"), "{what}");
            });
        }
    }
}

/// Lengths of which plans make different calls, or the same by fewer or more pieces: those of a report, and others.
#[test]
fn b42_lengths_that_differ_are_told_so_whatever_they_are() {
    let options = Options { timeout: LONG, capacity_bytes: 1 << 20, ..Options::for_processes() };
    let drawn = (0..12).map(|number| [0, 1].map(|which| 1 + mix(42, which, number) as usize % 400_000));
    for (number, [one, other]) in [[409_600, 409_598], [1, 2], [8, 400_000]].into_iter().chain(drawn).enumerate() {
        let (world, begun) = (2 + number as u32 % 2, Instant::now());
        on_ranks(world, &options, |mut comm, rank| {
            let mut data = vec![f16::ONE; if rank == 1 { one } else { other }];
            let result = comm.all_reduce(&[RankBuffers::in_place(&mut data)], ReduceOp::Sum);
            let Err(Error::Disagreement { values, .. }) = &result else { panic!("{one} and {other}: {result:?}") };
            assert!(values.iter().any(|(_, ranks)| *ranks == [1]), "{one} and {other}: {result:?}");
        });
        assert!(begun.elapsed() < Duration::from_secs(10), "{one} and {other}: {:?}", begun.elapsed());
    }
}

/// Some of the others come, and wait themselves for the one that does not.
#[test]
fn b44_who_has_not_come_is_named_and_not_who_waits_for_it() {
    let timeout = Some(Duration::from_millis(200));
    let options = Options { timeout, ..options() };
    for world in 3..=4 {
        let absent = 1;
        let forms =
            forms(world).into_iter().filter(|(algorithm, input)| algorithm.pushes() || *input == InputMode::Copied);
        for (algorithm, input) in forms {
            on_ranks(world, &options, |mut comm, rank| {
                // It is there, and makes no call until the others have given up.
                if rank == absent {
                    std::thread::sleep(Duration::from_millis(500));
                    return;
                }
                // Parts of two, two and no packs, say.
                let mut data = vec![1.0_f32; 4 * (world as usize - 1)];
                let call = CallOptions { algorithm: Some(algorithm), input: Some(input), ..CallOptions::default() };
                let result = comm.all_reduce_with(&[RankBuffers::in_place(&mut data)], ReduceOp::Sum, &call);
                let Err(Error::Timeout { missing, .. }) = &result else {
                    panic!("{algorithm:?} {input:?}: {result:?}")
                };
                // Where others take the processor, another one may be late, too.
                let named = missing.contains(&absent) && !missing.contains(&rank);
                assert!(named, "{algorithm:?} {input:?} of {world}: {result:?}");
            });
        }
    }
}

/// Ranks that come at different times, some of them long after others: whoever is early waits, and nobody calls too soon.
#[test]
fn b33_b40_ranks_that_come_late_are_waited_for() {
    for turn in 0..12 {
        let world = 2 + (mix(33, 0, turn) % 4) as u32;
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for seat in local(world).expect("so many ranks") {
                scope.spawn(move || {
                    let any = |what| mix(33, what + u64::from(seat.rank()), turn);
                    std::thread::sleep(Duration::from_millis(any(1) % 50));
                    let mut comm = Communicator::connect_cpu(&seat).expect("all come");
                    std::thread::sleep(Duration::from_millis(any(11) % 50));
                    let mut data = vec![1.0_f32; 1 + (mix(33, 99, turn) % 3000) as usize];
                    comm.all_reduce(&[RankBuffers::in_place(&mut data)], ReduceOp::Sum).expect("all call");
                    assert!(data.iter().all(|&x| x == world as f32), "turn {turn}, rank {}", seat.rank());
                });
            }
        });
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    }
}
