//! Communicators that are made, come to a bad end, are rebuilt and dropped, again and again: nothing is left of them. Alone in its
//! program, since it counts what the process holds.

mod meet;

use std::time::{Duration, Instant};

use allfold::rendezvous::{self, Local, Rendezvous};
use allfold::{Communicator, Error, Options, RankBuffers, ReduceOp, SelfTest};
use meet::held::Held;

/// As many are run as the variable `ALLFOLD_CYCLES` says, or so many.
const CYCLES: u32 = 300;
/// After so many, what a process keeps for itself has been made.
const WARM: u32 = 100;

/// Bytes that this process has in memory.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("/proc");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096
}

fn sum(comm: &mut Communicator) -> Result<(), Error> {
    let mut data = [1.0_f32; 100];
    comm.all_reduce(&[RankBuffers::in_place(&mut data)], ReduceOp::Sum)?;
    assert_eq!(data, [comm.world() as f32; 100]);
    Ok(())
}

/// A rank's part of a cycle, in which rank `number % 3` of three does something wrong.
fn cycle(seat: &Local, number: u32) {
    let options = Options {
        capacity_bytes: 4096,
        landing_bytes: Some(4096),
        self_test: SelfTest::Always,
        ..Options::for_processes()
    };
    let mut comm = Communicator::connect_cpu_with(seat, options).expect("all come");
    let rank = comm.local_ranks().start as u32;
    sum(&mut comm).expect("all call");
    // What a rank does now is nothing that another still waits for.
    seat.barrier(Instant::now() + Duration::from_secs(30)).expect("all come");
    let victim = number % 3;
    let mut left = vec![0, 1, 2];
    match number / 3 % 3 {
        // It aborts.
        0 if rank == victim => comm.abort(),
        // It makes another call.
        1 if rank == victim => {
            let error = comm.all_reduce(&[RankBuffers::in_place(&mut [1.0_f32; 7])], ReduceOp::Sum);
            assert!(matches!(error, Err(Error::Disagreement { .. })), "{error:?}");
        }
        // It leaves.
        2 if rank == victim => return,
        _ => {
            let error = sum(&mut comm).expect_err("a fault of another rank");
            let right = matches!(error, Error::Aborted { .. } | Error::Disagreement { .. } | Error::PeerGone { .. });
            assert!(right, "{error}");
        }
    }
    if number / 3 % 3 == 2 {
        left.retain(|&rank| rank != victim as usize);
    }
    let mut rebuilt = comm.rebuild(&left).expect("all that are left do");
    drop(comm);
    sum(&mut rebuilt).expect("all that are left call");
}

#[test]
fn nothing_is_left_of_communicators_that_came_to_a_bad_end() {
    let cycles = std::env::var("ALLFOLD_CYCLES").ok().and_then(|cycles| cycles.parse().ok()).unwrap_or(CYCLES);
    let mut before = None;
    for number in 0..cycles {
        if number == WARM {
            before = Some((Held::settled(), resident_bytes()));
        }
        std::thread::scope(|scope| {
            for seat in rendezvous::local(3).expect("three ranks") {
                scope.spawn(move || cycle(&seat, number));
            }
        });
    }
    let (held, bytes) = before.expect("more cycles than it takes to be warm");
    held.check("after all cycles");
    let grown = resident_bytes().saturating_sub(bytes);
    // What an allocator keeps, whatever the number of cycles.
    assert!(grown < 2 << 20, "{grown} bytes more after {cycles} cycles");
}
