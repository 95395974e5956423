//! Every kind of fault at every place of a run, by every algorithm, whoever it befalls: a right result or one typed error on every rank,
//! in time, and a communicator of those who are left that works. Ranks are threads here, each with a communicator of its own;
//! `fault_processes.rs` has processes, and the program `suite` runs the same on GPUs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use allfold::{Communicator, Error, Options, RankBuffers, ReduceOp, rendezvous};
use allfold_tests::faults::{Report, Watchdog, matrix, threads};

#[test]
fn b42_b44_a_fault_of_a_rank_is_a_right_result_or_one_error_on_every_rank_and_those_left_go_on() {
    let cells = matrix::of_cpu_threads();
    assert!(cells.len() > 600, "{} cells", cells.len());
    let report = Arc::new(Report::default());
    let watchdog = Watchdog::start(Duration::from_secs(300), Arc::clone(&report));
    threads::on_cpu(&cells, &report, &watchdog);
    let lines = report.lines();
    println!("{}", lines.text);
    let failed = lines.failures;
    assert_eq!(lines.cells, cells.len());
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
