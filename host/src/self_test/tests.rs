//! The self-test of CPU ranks, with paths that work and with planted ones that do not: as threads of one communicator, and each with
//! a communicator of its own over shared memory, as processes have.

use std::time::{Duration, Instant};

use allfold_kernels::protocol::abi::{Algorithm, Dtype, InputMode};
use allfold_kernels::protocol::preset::Preset;

use crate::cpu::planted::{Fault, Kind, plant};
use crate::rendezvous::local;
use crate::{Communicator, Counters, Delays, Error, Options, RankBuffers, ReduceOp, Result, SelfTest};

/// How long ranks in processes have to connect; a call of the self-test, half of what is left.
const CONNECT: Duration = Duration::from_secs(4);
/// What one call of threads may take, and some more where others have the processor.
const LATEST: Duration = Duration::from_secs(20);

fn always() -> Options {
    Options { self_test: SelfTest::Always, ..small() }
}

fn small() -> Options {
    Options { capacity_bytes: 4096, landing_bytes: Some(4096), ..Options::for_processes() }
}

fn fault(kind: Kind, from: u32, to: u32) -> Fault {
    Fault { from, to, kind }
}

/// What comes of ranks that are threads of one communicator, with these faults.
fn threads(world: usize, faults: &[Fault], options: Options) -> Result<Communicator> {
    plant(faults);
    let made = Communicator::cpu_with(world, options);
    plant(&[]);
    made
}

/// The same of each rank where each has a communicator of its own.
fn each(world: u32, faults: &[Fault], options: &Options) -> Vec<Result<Communicator>> {
    let seats = local(world).expect("1 to 8 ranks");
    std::thread::scope(|scope| {
        let connect = |seat| {
            plant(faults);
            Communicator::connect_cpu_with(&seat, Options { connect_timeout: CONNECT, ..options.clone() })
        };
        let ranks: Vec<_> = seats.into_iter().map(|seat| scope.spawn(move || connect(seat))).collect();
        ranks.into_iter().map(|rank| rank.join().expect("no panic")).collect()
    })
}

fn pairs(made: &Result<Communicator>) -> &[(u32, u32)] {
    match made {
        Err(Error::SelfTest { pairs, what, hint }) => {
            assert!(!what.is_empty() && hint.contains("memory"), "{what}; {hint}");
            pairs
        }
        other => panic!("{other:?}"),
    }
}

fn all_pairs(world: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..world).flat_map(move |from| (0..world).map(move |to| (from, to))).filter(|(from, to)| from != to)
}

/// Sets of pairs of three ranks: each alone, and some that have to do with each other.
fn sets() -> Vec<Vec<(u32, u32)>> {
    let mut sets: Vec<_> = all_pairs(3).map(|pair| vec![pair]).collect();
    sets.extend([
        vec![(0, 1), (1, 0)],
        vec![(0, 2), (1, 2)],
        vec![(1, 0), (1, 2)],
        vec![(0, 1), (1, 2), (2, 0)],
        all_pairs(3).collect(),
    ]);
    sets
}

/// Ranks wait most of the time: all at once.
fn at_once<T: Sync>(cases: &[T], run: impl Fn(&T) + Sync) {
    std::thread::scope(|scope| {
        for case in cases {
            scope.spawn(|| run(case));
        }
    });
}

#[test]
fn b93_stores_that_do_not_come_are_named_by_pair_within_the_limit() {
    at_once(&sets(), |bad| {
        let faults: Vec<_> = bad.iter().map(|&(from, to)| fault(Kind::Lost, from, to)).collect();
        let begun = Instant::now();
        let made = threads(3, &faults, always());
        assert_eq!(pairs(&made), bad);
        // In the first call in which one waits, and not in each.
        assert!((Duration::from_secs(4)..LATEST).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    });
}

#[test]
fn b93_ranks_with_a_communicator_each_get_the_same_error_and_in_time() {
    at_once(&sets(), |bad| {
        let faults: Vec<_> = bad.iter().map(|&(from, to)| fault(Kind::Lost, from, to)).collect();
        let begun = Instant::now();
        let made = each(3, &faults, &always());
        assert!(begun.elapsed() < LATEST, "{:?}", begun.elapsed());
        for made in &made {
            assert_eq!(pairs(made), bad);
        }
        assert!(made[0].as_ref().err().map(Error::to_string).is_some_and(|text| text.contains("did not come within")));
    });
}

#[test]
fn b93_pushes_that_do_not_come_are_named_where_there_is_nothing_else() {
    let algorithms = vec![Algorithm::TwoShotPush, Algorithm::OneShotPush];
    // All input is out of reach, and so is every algorithm but the pushes.
    let registered = Options { inputs: vec![InputMode::Registered], ..always() };
    at_once(&[Options { algorithms, ..always() }, registered], |options| {
        at_once(&sets(), |bad| {
            let faults: Vec<_> = bad.iter().map(|&(from, to)| fault(Kind::Lost, from, to)).collect();
            for made in each(3, &faults, options) {
                assert_eq!(pairs(&made), bad);
            }
        });
    });
}

#[test]
fn b92_data_of_before_are_named_by_pair_for_every_dtype() {
    for dtype in Dtype::ALL {
        let options = Options { dtypes: vec![dtype], ..always() };
        for bad in sets() {
            let faults: Vec<_> = bad.iter().map(|&(from, to)| fault(Kind::Old, from, to)).collect();
            let begun = Instant::now();
            assert_eq!(pairs(&threads(3, &faults, options.clone())), bad, "{dtype:?}");
            for made in each(3, &faults, &options) {
                assert_eq!(pairs(&made), bad, "{dtype:?}");
            }
            assert!(begun.elapsed() < LATEST, "nobody waits");
        }
    }
}

#[test]
fn b92_garbage_is_named_by_the_rank_that_gets_it() {
    let of = |dtype| Options { inputs: vec![InputMode::Registered], dtypes: vec![dtype], ..always() };
    for (dtype, (from, to)) in Dtype::ALL.into_iter().flat_map(|dtype| all_pairs(2).map(move |pair| (dtype, pair))) {
        let made = threads(2, &[fault(Kind::Ones, from, to)], of(dtype));
        assert_eq!(pairs(&made), [(from, to)]);
        let error = made.expect_err("it has failed").to_string();
        let words = format!("the self-test has failed from rank {from} to rank {to}: ");
        assert!(
            error.starts_with(&words) && error.contains("elements of all outputs of a one_shot were wrong"),
            "{error}"
        );
    }
    for (dtype, (from, to)) in Dtype::ALL.into_iter().flat_map(|dtype| all_pairs(3).map(move |pair| (dtype, pair))) {
        let made = threads(3, &[fault(Kind::Ones, from, to)], of(dtype));
        let suspects = pairs(&made);
        let to_it = suspects.iter().all(|&(other, rank)| rank == to && other != to);
        assert!(suspects.contains(&(from, to)) && to_it, "{dtype:?}: {suspects:?}");
    }
}

/// A call whose sum is right, and which is the first: a rank that does not come is missed in the call after it, which is the second.
fn goes_on(comm: &mut Communicator, what: &str) {
    assert_eq!(comm.counters(), Counters::default(), "{what}");
    let (world, ranks) = (comm.world(), comm.local_ranks());
    let mut data: Vec<_> = ranks.map(|rank| vec![rank as i32 + 1; 50]).collect();
    let buffers: Vec<_> = data.iter_mut().map(|data| RankBuffers::in_place(data)).collect();
    comm.all_reduce(&buffers, ReduceOp::Sum).unwrap_or_else(|error| panic!("{what}: {error}"));
    drop(buffers);
    let sum: i32 = (1..=world as i32).sum();
    assert!(data.iter().flatten().all(|&x| x == sum), "{what}: {data:?}");
}

#[test]
fn paths_that_work_pass_whatever_is_declared_and_nothing_is_left_of_it() {
    for world in [2, 3, 8] {
        for (number, algorithm) in Algorithm::ALL.into_iter().enumerate() {
            let dtypes = vec![Dtype::I32, Dtype::ALL[number % 4]];
            for inputs in [vec![InputMode::Registered], vec![InputMode::Memcpy, InputMode::Registered]] {
                let options = Options { algorithms: vec![algorithm, Algorithm::TwoShotPush], inputs, ..always() };
                let options = Options { dtypes: dtypes.clone(), cpu_shape: (2, 2), ..options };
                let what = format!("{world} ranks, {options:?}");
                let mut comm = threads(world, &[], options).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert!(comm.self_test_took().is_some_and(|took| took < LATEST), "{what}");
                goes_on(&mut comm, &what);
            }
        }
    }
    for (preset, last_epoch) in Preset::ALL.into_iter().zip([0, 1, 2, u64::from(u32::MAX), u64::MAX >> 2]) {
        let has = |&input: &InputMode| Algorithm::ALL.iter().any(|&a| preset.protocol(a, input).is_some());
        let inputs = InputMode::ALL.into_iter().filter(has).collect();
        let options = Options { protocol: preset, inputs, last_epoch, ..always() };
        let mut comm = threads(3, &[], options).unwrap_or_else(|error| panic!("{preset:?}: {error}"));
        assert!(comm.self_test_took().is_some(), "{preset:?}");
        goes_on(&mut comm, preset.name());
    }
}

#[test]
fn the_first_call_after_it_is_the_first_of_all() {
    let options = Options { timeout: Some(Duration::from_millis(300)), last_epoch: 40, ..always() };
    let mut ranks: Vec<_> = each(2, &[], &options).into_iter().map(|made| made.expect("paths work")).collect();
    let mut data = [1.0_f32; 50];
    let error = ranks[1].all_reduce(&[RankBuffers::in_place(&mut data)], ReduceOp::Sum).expect_err("0 does not come");
    assert!(matches!(error, Error::Timeout { waiting_rank: 1, epoch: 41, .. }), "{error}");
}

#[test]
fn ranks_with_a_communicator_each_go_on_after_it() {
    for world in [2, 5] {
        std::thread::scope(|scope| {
            for (number, made) in each(world, &[], &always()).into_iter().enumerate() {
                scope.spawn(move || {
                    let mut comm = made.expect("paths work");
                    assert!(comm.self_test_took().is_some());
                    goes_on(&mut comm, &format!("rank {number}"));
                    // A part is tested as well, by the line of its own.
                    let part = comm.split(Some(0), 0).expect("all come").expect("a color was given");
                    assert!(part.self_test_took().is_some());
                });
            }
        });
    }
}

#[test]
fn what_has_passed_is_not_tested_again_until_it_has_failed_and_never_is_never() {
    // A set of calls that no other test has, of CPU ranks in one process, whose passes no file keeps.
    let algorithms = vec![Algorithm::TwoShot, Algorithm::OnePass];
    let of = |self_test| Options { algorithms: algorithms.clone(), self_test, ..small() };
    let bad = [fault(Kind::Old, 0, 1)];
    let tested = |made: Result<Communicator>| made.expect("it works, or nobody looks").self_test_took().is_some();
    assert!(!tested(threads(2, &bad, of(SelfTest::Never))));
    assert!(tested(threads(2, &[], of(SelfTest::Cached))));
    assert!(!tested(threads(2, &[], of(SelfTest::Cached))));
    assert!(!tested(threads(2, &bad, of(SelfTest::Cached))), "it has passed");
    assert_eq!(pairs(&threads(2, &bad, of(SelfTest::Always))), [(0, 1)]);
    assert_eq!(pairs(&threads(2, &bad, of(SelfTest::Cached))), [(0, 1)], "it counts no more");
    assert!(tested(threads(2, &[], of(SelfTest::Cached))));
    assert!(tested(threads(2, &[], of(SelfTest::Always))));
}

#[test]
fn ranks_alone_and_experiments_are_not_tested() {
    let custom = Preset::Allfold.protocol(Algorithm::OneShot, InputMode::Copied);
    let delays = Some(Delays { nanoseconds: 1, one_in: 100 });
    let algorithms = vec![Algorithm::OneShot, Algorithm::TwoShot];
    let none = [
        (1, always()),
        (2, Options { custom, algorithms: algorithms.clone(), inputs: vec![InputMode::Copied], ..always() }),
        (2, Options { delays, dtypes: vec![Dtype::Bf16], ..always() }),
        (2, Options { dtypes: Vec::new(), ..always() }),
        (2, Options { algorithms: Vec::new(), ..always() }),
        // Not even the smallest call has room.
        (2, Options { algorithms, inputs: vec![InputMode::Copied], capacity_bytes: 16, ..always() }),
    ];
    for (world, options) in none {
        let what = format!("{options:?}");
        let comm =
            threads(world, &[fault(Kind::Lost, 0, 1)], options).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(comm.self_test_took(), None, "{what}");
    }
}
