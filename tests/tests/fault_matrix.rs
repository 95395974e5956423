//! Every kind of fault at every place of a run, by every algorithm, whoever it befalls: a right result or one typed error on every rank,
//! in time, and a communicator of those who are left that works. Ranks are threads here, each with a communicator of its own;
//! `fault_processes.rs` has processes.

mod faults;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use allfold::{Algorithm, Communicator, Error, InputMode, Options, RankBuffers, ReduceOp, rendezvous};
use faults::{Cell, Fault, Phase};

const FORMS: [(Algorithm, InputMode); 8] = [
    (Algorithm::OneShot, InputMode::Copied),
    (Algorithm::OneShot, InputMode::Registered),
    (Algorithm::TwoShot, InputMode::Copied),
    (Algorithm::TwoShot, InputMode::Registered),
    (Algorithm::OneShotPush, InputMode::Copied),
    (Algorithm::TwoShotPush, InputMode::Copied),
    (Algorithm::OnePass, InputMode::Registered),
    (Algorithm::Exchange, InputMode::Copied),
];

const FAULTS: [Fault; 12] = [
    Fault::Late,
    Fault::Absent,
    Fault::Dropped,
    Fault::Aborts,
    Fault::AbortedFromAside,
    Fault::Longer,
    Fault::Shorter,
    Fault::OtherDtype,
    Fault::OtherAlgorithm,
    Fault::OtherGrid,
    Fault::OtherOrder,
    Fault::OneMore,
];

/// Whether the fault can be there.
fn can_be(cell: &Cell) -> bool {
    // The others are in their call before the victim does anything.
    let within = cell.phase == Phase::Within;
    cell.form.0.takes(cell.world) && (!within || matches!(cell.fault, Fault::Late | Fault::Dropped))
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for fault in FAULTS {
        for phase in [Phase::First, Phase::Between, Phase::Many, Phase::Within] {
            for (number, form) in FORMS.into_iter().enumerate() {
                for world in [2, 3] {
                    // Every rank is the victim in turn, from form to form and from phase to phase.
                    let victim = (number as u32 + phase as u32 + fault as u32) % world;
                    cells.push(Cell { fault, phase, form, world, victim });
                }
            }
        }
    }
    cells.retain(can_be);
    cells
}

/// Runs `cell` with a thread for each rank.
fn run(cell: Cell) -> Result<(), String> {
    let seats = rendezvous::local(cell.world).map_err(|error| error.to_string())?;
    std::thread::scope(|scope| {
        let ranks: Vec<_> = seats.into_iter().map(|seat| scope.spawn(move || cell.run(&seat, None))).collect();
        let outcomes = ranks.into_iter().map(|rank| rank.join().unwrap_or_else(|_| Err("it panicked".to_owned())));
        let failed: Vec<_> = outcomes.filter_map(Result::err).collect();
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
    })
}

#[test]
fn b42_b43_b44_a_fault_of_a_rank_is_a_right_result_or_one_error_on_every_rank_and_those_left_go_on() {
    let cells = cells();
    assert!(cells.len() > 400, "{} cells", cells.len());
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    // Ranks wait most of the time.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(&cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(why) = run(cell) {
                        failed.lock().expect("nobody panics with it").push((cell, why));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("nobody panicked with it");
    assert!(failed.is_empty(), "{} of {} cells failed, the first: {:?}", failed.len(), cells.len(), failed.first());
}

/// On one stream, or one thread of a host, each rank waits in another communicator. Who gives up first may still meet the other one in
/// the second; but in the first it has waited in vain.
#[test]
fn b43_two_communicators_in_opposite_order_are_an_error_that_says_which_call_waited() {
    let [first, second] = [0, 1].map(|_| rendezvous::local(2).expect("two ranks"));
    let (begun, waited_in_vain) = (Instant::now(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for (rank, seats) in (0..).zip(first.into_iter().zip(second)) {
            let waited_in_vain = &waited_in_vain;
            scope.spawn(move || {
                let timeout = Some(Duration::from_millis(200));
                let options = || Options { timeout, ..Options::for_processes() };
                let connect = |seat| Communicator::connect_cpu_with(seat, options()).expect("both come");
                let mut both = [connect(&seats.0), connect(&seats.1)];
                for number in [rank, 1 - rank] {
                    let mut data = [1.0_f32; 1000];
                    match both[number].all_reduce(&[RankBuffers::in_place(&mut data)], ReduceOp::Sum) {
                        Ok(()) => assert_eq!(data, [2.0; 1000]),
                        Err(Error::Timeout { waiting_rank, missing, epoch: 1, .. }) => {
                            assert_eq!(missing, [1 - waiting_rank]);
                            waited_in_vain.fetch_add(1, Ordering::Relaxed);
                        }
                        // It has waited for long enough, and has left.
                        Err(Error::PeerGone { rank: gone }) => assert_eq!(gone as usize, 1 - rank),
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    assert!(waited_in_vain.into_inner() > 0, "nobody waited");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}
