//! CPU ranks in processes of their own: the same bits as threads have, whoever comes, goes and dies.

mod meet;

use std::time::{Duration, Instant};

use allfold::rendezvous::{Rendezvous, RendezvousError, local};
use allfold::tuning::Table;
use allfold::{Algorithm, CallOptions, Communicator, Dtype, Error, InputMode, Options, Preset, RankBuffers, ReduceOp};
use allfold_tests::batch;
use allfold_tests::call::Call;
use allfold_tests::data::{Data, mix};
use allfold_tests::machine::CpuMachine;
use allfold_tests::suite::{in_place, sound_forms};
use meet::held::Held;
use meet::{Case, on, on_all, tell};

/// Small, with every input mode that `preset` has, and a limit to each wait.
fn options(preset: Preset, capacity_bytes: usize) -> Options {
    let has = |input: &InputMode| Algorithm::ALL.iter().any(|&a| preset.protocol(a, *input).is_some());
    Options {
        protocol: preset,
        inputs: InputMode::ALL.into_iter().filter(has).collect(),
        capacity_bytes: capacity_bytes as u64,
        landing_bytes: Some(capacity_bytes as u64),
        timeout: Some(Duration::from_secs(30)),
        ..Options::default()
    }
}

/// The sound forms of `preset` that reach no buffer of a peer's caller.
fn forms(preset: Preset, world: u32) -> Vec<(Algorithm, InputMode)> {
    let mut forms = sound_forms(preset, world as usize);
    forms.retain(|(algorithm, input)| input.staged() || algorithm.pushes());
    forms
}

fn connect(seat: &dyn Rendezvous, options: Options) -> Communicator {
    Communicator::connect_cpu_with(seat, options).unwrap_or_else(|error| panic!("rank {}: {error}", seat.rank()))
}

/// One small call; the sum is right if it comes to an end.
fn call(comm: &mut Communicator, number: usize) -> Result<(), Error> {
    let (world, rank) = (comm.world(), comm.local_ranks().start);
    let mut data = vec![(rank + number) as f32; 1000];
    comm.all_reduce(&[RankBuffers::in_place(&mut data)], ReduceOp::Sum)?;
    let sum = (0..world).map(|rank| rank + number).sum::<usize>() as f32;
    assert!(data.iter().all(|&x| x == sum), "{} is not {sum}", data[0]);
    Ok(())
}

#[test]
fn b112_processes_get_the_bits_that_threads_get() {
    const MOST_ELEMS: usize = 200_003;
    for world in [1, 2, 3, 4, 8] {
        on_all("b112_processes_get_the_bits_that_threads_get", Case(world, 0), |seat| {
            for preset in Preset::ALL {
                let options = options(preset, 4 * MOST_ELEMS);
                let mut comm = connect(seat, options.clone());
                assert_eq!((comm.world(), comm.local_ranks().len()), (world as usize, 1));
                assert_eq!(comm.local_ranks().start as u32, seat.rank());
                let sizes: &[usize] = match preset {
                    Preset::Allfold => &[0, 1, 2, 3, 7, 8, 9, 31, 100, 257, 1000, 4096, 10_007],
                    Preset::Vllm | Preset::Sglang | Preset::Trtllm | Preset::Minimal => &[1, 100, 10_007],
                };
                let mut calls = Vec::new();
                for form in forms(preset, world) {
                    for (number, &elems) in sizes.iter().enumerate() {
                        let dtype = Options::DTYPES[number % Options::DTYPES.len()];
                        let call = Call { data: Data::Bits(number as u64), ..Call::new(dtype, elems).by(form) };
                        let skewed = Call { skew: 1 + number, ..call };
                        calls.extend([call, Call { spoil: true, ..skewed }]);
                        calls.extend(in_place(form).then_some(Call { in_place: true, ..skewed }));
                    }
                    calls.extend(Options::DTYPES.map(|dtype| Call::new(dtype, 1234).by(form)));
                    calls.extend((preset == Preset::Allfold).then_some(Call::new(Dtype::Bf16, MOST_ELEMS).by(form)));
                }
                for (number, calls) in (0..).zip(calls.chunks(40)) {
                    let got = batch::run(&CpuMachine, &mut comm, calls).unwrap_or_else(|error| panic!("{error:#}"));
                    // They are what the oracle says, on all ranks; and one rank compares.
                    if number % world != seat.rank() {
                        continue;
                    }
                    let mut threads = Communicator::cpu_with(world as usize, options.clone()).expect("threads");
                    let want = batch::run(&CpuMachine, &mut threads, calls).unwrap_or_else(|error| panic!("{error:#}"));
                    for ((call, got), want) in calls.iter().zip(got).zip(want) {
                        assert!(got[0] == want[seat.rank() as usize], "{preset:?} {call:?}");
                    }
                }
            }
        });
    }
}

#[test]
fn blocks_of_several_threads_and_plans_of_the_library_serve_processes_too() {
    for world in [2, 4] {
        on_all("blocks_of_several_threads_and_plans_of_the_library_serve_processes_too", Case(world, 0), |seat| {
            let options =
                Options { cpu_shape: (3, 2), timeout: Some(Duration::from_secs(30)), ..Options::for_processes() };
            let mut comm = connect(seat, options);
            let mut calls = Vec::new();
            for elems in [1, 500, 3000, 70_000] {
                for (blocks, threads) in [(1, 1), (2, 1), (3, 2)] {
                    calls.push(Call::new(Dtype::Bf16, elems).on(blocks, threads));
                    calls.extend(
                        forms(Preset::Allfold, world)
                            .into_iter()
                            .filter(|form| form.1 == InputMode::Copied)
                            .map(|form| Call::new(Dtype::F16, elems).by(form).on(blocks, threads)),
                    );
                }
                calls.push(Call { in_place: true, ..Call::new(Dtype::F32, elems) });
            }
            calls.retain(|call| call.bytes() <= 16 << 10 || call.options.algorithm.is_none_or(|a| !a.pushes()));
            batch::run(&CpuMachine, &mut comm, &calls).unwrap_or_else(|error| panic!("{error:#}"));
        });
    }
}

#[test]
fn b13_b31_b52_every_call_is_right_however_far_ranks_are_apart() {
    let world = 4;
    on_all("b13_b31_b52_every_call_is_right_however_far_ranks_are_apart", Case(world, 0), |seat| {
        let options = Options { stamps: true, ..options(Preset::Allfold, 1 << 16) };
        let mut comm = connect(seat, options);
        let forms = forms(Preset::Allfold, world);
        let (mut input, mut output) = (vec![0.0_f32; 5000], vec![0.0_f32; 5000]);
        for number in 0..3000 {
            let elems = 1 + mix(1, 2, number) as usize % 5000;
            let (algorithm, mode) = forms[mix(3, 4, number) as usize % forms.len()];
            let call = CallOptions { algorithm: Some(algorithm), input: Some(mode), ..CallOptions::default() };
            // A rank now and then takes its time, each another time.
            if mix(5, u64::from(seat.rank()), number).is_multiple_of(50) {
                std::thread::sleep(Duration::from_micros(500));
            }
            comm.fill_stamps(&[RankBuffers::in_place(&mut input[..elems])]).expect("they were declared");
            let buffers = [RankBuffers::new(&input[..elems], &mut output[..elems])];
            comm.all_reduce_with(&buffers, ReduceOp::Sum, &call).expect("all ranks call");
            comm.check_stamps(&[RankBuffers::in_place(&mut output[..elems])]).expect("they were declared");
        }
        assert_eq!(comm.wrong().expect("it is memory"), [0], "{:?}", comm.first_wrong());
    });
}

#[test]
fn what_reaches_into_other_processes_is_refused_and_not_chosen() {
    on_all("what_reaches_into_other_processes_is_refused_and_not_chosen", Case(2, 0), |seat| {
        let mut comm = connect(seat, options(Preset::Allfold, 4096));
        assert!(!comm.limits().reaches_buffers);
        let (input, mut output) = ([1.0_f32; 500], [0.0_f32; 500]);
        for algorithm in Algorithm::ALL.into_iter().filter(|algorithm| !algorithm.pushes()) {
            let call = CallOptions { algorithm: Some(algorithm), ..CallOptions::default() };
            let error = comm.all_reduce_with(&[RankBuffers::new(&input, &mut output)], ReduceOp::Sum, &call);
            assert!(matches!(error, Err(Error::OutOfReach { algorithm: a }) if a == algorithm), "{error:?}");
        }
        // The first of its input modes is registered: a push.
        let plan = comm
            .all_reduce_with(&[RankBuffers::new(&input, &mut output)], ReduceOp::Sum, &CallOptions::default())
            .expect("a push has room for it");
        assert!(plan.algorithm.pushes() && output == [2.0; 500], "{plan:?}");
        // Too much for a push.
        let error = comm.all_reduce(&[RankBuffers::in_place(&mut [1.0_f32; 5000])], ReduceOp::Sum);
        assert!(matches!(error, Err(Error::OutOfReach { .. })), "{error:?}");
        let (mut one, mut other) = ([1.0_f32; 5], [1.0_f32; 5]);
        let two = [RankBuffers::in_place(&mut one), RankBuffers::in_place(&mut other)];
        let error = comm.all_reduce(&two, ReduceOp::Sum);
        assert!(matches!(error, Err(Error::RankCount { local: 1, got: 2 })), "{error:?}");
        let (input, mut output) = ([1.0_f32; 5], [1.0_f32; 6]);
        let error = comm.all_reduce(&[RankBuffers::new(&input, &mut output)], ReduceOp::Sum);
        assert!(matches!(error, Err(Error::OutputLength { rank, .. }) if rank == seat.rank()), "{error:?}");
    });
}

#[test]
fn ranks_choose_alike_where_only_one_is_in_place() {
    on_all("ranks_choose_alike_where_only_one_is_in_place", Case(2, 0), |seat| {
        let text = "\
            # allfold tuning 1\n# device CPU\n# date today\n# command by hand\n\
            2 4 registered max two_shot_push 1 32\n2 4 in_place max one_shot_push 1 32\n";
        let tuning = Some(Table::read(text).expect("a table"));
        let mut comm = connect(seat, Options { tuning, ..options(Preset::Allfold, 4096) });
        for number in 0..4 {
            let (mut data, input) = ([1.0_f32; 300], [1.0_f32; 300]);
            let buffers = match seat.rank() == number % 2 {
                true => RankBuffers::in_place(&mut data),
                false => RankBuffers::new(&input, &mut data),
            };
            let plan = comm.all_reduce_with(&[buffers], ReduceOp::Sum, &CallOptions::default()).expect("both call");
            assert_eq!((plan.algorithm, data), (Algorithm::OneShotPush, [2.0; 300]));
        }
    });
}

#[test]
fn b33_b70_b71_communicators_come_and_go_and_leave_nothing() {
    let world = 3;
    on_all("b33_b70_b71_communicators_come_and_go_and_leave_nothing", Case(world, 0), |seat| {
        let before = Held::now();
        for number in 0..120 {
            let mut comm = connect(seat, options(Preset::Allfold, 4096));
            for call_number in 0..number % 4 {
                call(&mut comm, call_number).expect("all ranks call");
            }
            // Two alive at once, now and then, and the first dropped first.
            if number % 10 == 9 {
                let mut second = connect(seat, Options { capacity_bytes: 100, ..Options::for_processes() });
                call(&mut comm, 5).expect("all ranks call");
                drop(comm);
                second.all_reduce(&[RankBuffers::in_place(&mut [1.0_f32; 10])], ReduceOp::Sum).expect("all ranks call");
            }
            // Without a word to the others, who may still be at work.
        }
        before.check("after 120 communicators");
    });
}

#[test]
fn ranks_of_one_process_may_connect_as_if_they_were_of_several() {
    let ranks = local(4).expect("4 ranks").into_iter().map(|rank| {
        std::thread::spawn(move || {
            let mut comm = connect(&rank, options(Preset::Allfold, 4096));
            (0..100).for_each(|number| call(&mut comm, number).expect("all ranks call"));
        })
    });
    ranks.collect::<Vec<_>>().into_iter().for_each(|rank| rank.join().expect("its sums are right"));
}

#[test]
fn eight_ranks_are_connected_within_a_second() {
    on_all("eight_ranks_are_connected_within_a_second", Case(8, 0), |seat| {
        // The machine may have other things to do: once is enough.
        let mut times = Vec::new();
        while !times.iter().any(|&ms| ms < 1000) {
            assert!(times.len() < 30, "{times:?}");
            tell(seat, "all are there");
            let begun = Instant::now();
            let mut comm = Communicator::connect_cpu(seat).expect("there is memory");
            let took = tell(seat, &begun.elapsed().as_millis().to_string());
            call(&mut comm, 1).expect("all ranks call");
            times.extend(took.iter().map(|ms| ms.parse::<u32>().expect("a number")).max());
        }
    });
}

#[test]
fn a_rank_that_leaves_takes_nothing_from_its_peers() {
    for (world, dies) in [(2, 0), (3, 1)] {
        on_all("a_rank_that_leaves_takes_nothing_from_its_peers", Case(world, dies), |seat| {
            let mut comm = connect(seat, options(Preset::Allfold, 1 << 16));
            for number in 0..10 {
                call(&mut comm, number).expect("all ranks call");
            }
            if seat.rank() == 0 {
                // In the one case properly, in the other as if it had been killed.
                if dies == 1 {
                    std::process::exit(0);
                }
                return drop(comm);
            }
            let begun = Instant::now();
            let error = call(&mut comm, 10).expect_err("rank 0 is gone");
            assert!(matches!(error, Error::PeerGone { rank: 0 }), "{error}");
            assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
            let again = call(&mut comm, 11).expect_err("it is at its end");
            assert_eq!(again.to_string(), error.to_string());
        });
    }
}

#[test]
fn a_rank_that_does_not_come_is_named_within_the_deadline() {
    on_all("a_rank_that_does_not_come_is_named_within_the_deadline", Case(3, 0), |seat| {
        let missing = Err(RendezvousError::Missing { missing: vec![1] });
        if seat.rank() == 1 {
            std::thread::sleep(Duration::from_secs(3));
            return assert_eq!(seat.barrier(Instant::now() + Duration::from_secs(5)), missing);
        }
        let before = Held::now();
        let begun = Instant::now();
        let options = Options { connect_timeout: Duration::from_secs(1), ..Options::for_processes() };
        let error = Communicator::connect_cpu_with(seat, options).expect_err("rank 1 does not come");
        assert_eq!(error.to_string(), "ranks [1] did not come within the deadline");
        // The group gives up a little earlier, so that all hear of it in time.
        assert!((Duration::from_millis(700)..Duration::from_secs(5)).contains(&begun.elapsed()));
        before.check("after a rank that did not come");
    });
}

#[test]
fn a_rank_that_does_not_start_is_named_within_the_deadline() {
    on("a_rank_that_does_not_start_is_named_within_the_deadline", Case(3, 0), &[0, 2], |guest| {
        let before = Held::now();
        let begun = Instant::now();
        let error = guest.join(begun + Duration::from_secs(2)).err().expect("rank 1 does not come");
        assert_eq!(error, RendezvousError::Missing { missing: vec![1] }, "rank {}", guest.rank);
        assert!((Duration::from_millis(1000)..Duration::from_secs(6)).contains(&begun.elapsed()));
        before.check("after a rank that did not start");
    });
}
