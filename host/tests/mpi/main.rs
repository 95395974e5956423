//! Ranks that MPI has started, 2, 3 and 4 of them: what holds wherever ranks meet holds here. With feature `mpi` alone,
//! and there every test runs: without an `mpirun` (or what the variable `MPIRUN` names) they fail. `cargo xtask mpi`
//! brings one.

mod ranks;

use std::time::{Duration, Instant};
use std::{env, fs};

use allfold::rendezvous::{Call, MOST_BYTES, Mpi, Rendezvous, RendezvousError};
use allfold::{Communicator, Error, Options, RankBuffers, ReduceOp};
use mpi::topology::{Color, SimpleCommunicator};
use mpi::traits::{Communicator as _, *};
use ranks::{mpirun, on_ranks, on_ranks_then, text};

/// Longer than anything takes that does not wait for [`late`], on a machine that does other things as well.
const SOON: Duration = Duration::from_secs(4);

fn after(ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(ms)
}

/// A deadline that no test should come to.
fn late() -> Instant {
    after(20_000)
}

fn join(world: &SimpleCommunicator) -> Mpi {
    Mpi::join(world, late()).expect("all come")
}

#[test]
fn right_results() {
    on_ranks("right_results", |world| {
        let member = join(world);
        assert_eq!((member.rank() as i32, member.world() as i32), (world.rank(), world.size()));
        let given =
            |rank: u32, call: u32| vec![(rank + call) as u8; (rank * 7919 + call * call * 131) as usize % 100_000];
        for call in 0..30 {
            let all = member.all_gather(&given(member.rank(), call), late()).expect("all call");
            assert!(
                all.len() as u32 == member.world() && (0..).zip(&all).all(|(rank, bytes)| *bytes == given(rank, call))
            );
            member.barrier(late()).expect("all call");
        }
        let all = member.all_gather(&vec![7; MOST_BYTES], late()).expect("as many as there may be");
        assert!(all.iter().all(|bytes| *bytes == [7; MOST_BYTES]));
    });
}

#[test]
fn memory_of_messages_is_freed() {
    on_ranks("memory_of_messages_is_freed", |world| {
        let resident_kb = || {
            let status = fs::read_to_string("/proc/self/status").expect("this is Linux");
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it is resident");
            line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number")
        };
        let member = join(world);
        let mut before = 0;
        for call in 0..50 {
            // What the first calls take stays MPI's own.
            if call == 10 {
                before = resident_kb();
            }
            drop(member.all_gather(&vec![7; MOST_BYTES], late()).expect("all call"));
        }
        let more_kb = resident_kb().saturating_sub(before);
        assert!(more_kb < 20 * MOST_BYTES / 1024, "{more_kb} kB more after 40 calls");
    });
}

#[test]
fn sums_of_ranks_in_the_order_of_any_communicator() {
    on_ranks("sums_of_ranks_in_the_order_of_any_communicator", |world| {
        let turned = world.split_by_color_with_key(Color::with_value(0), -world.rank()).expect("all are of a colour");
        for (communicator, own) in [(world, world.rank()), (&turned, world.size() - 1 - world.rank())] {
            let ranks = join(communicator);
            assert_eq!(ranks.rank() as i32, own);
            let mut data: Vec<f32> = (0..5000).map(|number| (number * (own + 1)) as f32).collect();
            let mut communicator = Communicator::connect_cpu(&ranks).expect("all connect");
            communicator.all_reduce(&[RankBuffers::in_place(&mut data)], ReduceOp::Sum).expect("it is a right call");
            let times = world.size() * (world.size() + 1) / 2;
            assert!((0..).zip(&data).all(|(number, &sum)| sum == (number * times) as f32));
        }
    });
}

#[test]
fn nobody_connects_where_one_does_not_or_differs() {
    on_ranks("nobody_connects_where_one_does_not_or_differs", |world| {
        let last = world.size() as u32 - 1;
        let ranks = join(world);
        let options = Options { connect_timeout: Duration::from_millis(300), ..Options::for_processes() };
        if ranks.rank() == last {
            world.barrier();
        }
        let begun = Instant::now();
        let error = Communicator::connect_cpu_with(&ranks, options).expect_err("one does not come");
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        if ranks.rank() != last {
            world.barrier();
        }
        let missing = RendezvousError::Missing { missing: vec![last] };
        assert!(matches!(&error, Error::Rendezvous(why) if *why == missing), "{error}");

        let ranks = join(world);
        let last_epoch = u64::from(ranks.rank() == last) + 1000;
        let options = Options { last_epoch, ..Options::for_processes() };
        let error = Communicator::connect_cpu_with(&ranks, options).expect_err("one differs");
        assert!(matches!(error, Error::Disagreement { .. }), "{error}");
    });
}

#[test]
fn a_missing_rank_is_named_in_time() {
    on_ranks("a_missing_rank_is_named_in_time", |world| {
        for missing in [0, world.size() as u32 - 1] {
            let member = join(world);
            member.barrier(late()).expect("all come");
            let error = RendezvousError::Missing { missing: vec![missing] };
            if member.rank() != missing {
                let begun = Instant::now();
                assert_eq!(member.barrier(after(300)), Err(error.clone()));
                assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
            }
            world.barrier();
            // What comes later fails as this did, at once.
            let begun = Instant::now();
            assert_eq!(member.all_gather(b"again", late()), Err(error));
            assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        }
    });
}

#[test]
fn a_late_rank_0_does_not_hide_who_is_missing() {
    on_ranks("a_late_rank_0_does_not_hide_who_is_missing", |world| {
        let (rank, last) = (world.rank(), world.size() - 1);
        let member = join(world);
        if rank != last {
            std::thread::sleep(Duration::from_millis(if rank == 0 { 150 } else { 0 }));
            let deadline = after(if rank == 0 { 3000 } else { 600 });
            assert_eq!(member.barrier(deadline), Err(RendezvousError::Missing { missing: vec![last as u32] }));
        }
        world.barrier();
    });
}

#[test]
fn a_rank_that_leaves_is_named_at_once() {
    on_ranks("a_rank_that_leaves_is_named_at_once", |world| {
        for gone in [0, world.size() as u32 - 1] {
            let member = join(world);
            if member.rank() == gone {
                continue;
            }
            let begun = Instant::now();
            assert_eq!(member.barrier(late()), Err(RendezvousError::Gone { rank: gone }));
            assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        }
    });
}

#[test]
fn wrong_calls_are_refused_by_all() {
    on_ranks("wrong_calls_are_refused_by_all", |world| {
        for wrong in [0, world.size() as u32 - 1] {
            let member = join(world);
            let done = match member.rank() == wrong {
                true => member.barrier(late()),
                false => member.all_gather(b"", late()).map(drop),
            };
            let Err(RendezvousError::DifferentCalls { call, other_call, .. }) = done else { panic!("{done:?}") };
            assert!([[call, other_call], [other_call, call]].contains(&[Call::Barrier, Call::AllGather]));

            let member = join(world);
            let count = MOST_BYTES + usize::from(member.rank() == wrong);
            let (bytes, most_bytes) = (MOST_BYTES as u64 + 1, MOST_BYTES as u64);
            let error = RendezvousError::TooLong { rank: wrong, bytes, most_bytes };
            assert_eq!(member.all_gather(&vec![0; count], late()), Err(error));
        }
    });
}

#[test]
fn a_message_that_nobody_takes_holds_no_call_up() {
    on_ranks("a_message_that_nobody_takes_holds_no_call_up", |world| {
        let member = join(world);
        let begun = Instant::now();
        if member.rank() != 0 {
            // Too long to be on its way before the other takes it.
            let done = member.all_gather(&vec![1; MOST_BYTES], after(300));
            assert_eq!(done, Err(RendezvousError::Missing { missing: vec![0] }));
            // Meanwhile nothing here moves it on, and rank 0 looks for it.
            std::thread::sleep(Duration::from_millis(700));
        } else {
            std::thread::sleep(Duration::from_millis(500));
            member.all_gather(b"", after(200)).map(drop).expect_err("the others have given up");
        }
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    });
}

#[test]
fn a_rank_that_does_not_join_keeps_no_other_waiting() {
    on_ranks("a_rank_that_does_not_join_keeps_no_other_waiting", |world| {
        let (rank, last) = (world.rank(), world.size() - 1);
        if rank == last {
            for other in 0..last {
                let (_given_up, _) = world.process_at_rank(other).receive::<u8>();
            }
        }
        let begun = Instant::now();
        let error = Mpi::join(world, after(300)).err().expect("they do not come together");
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        if rank != last {
            assert!(error.to_string().contains("not all ranks came"), "{error}");
            world.process_at_rank(last).send(&1_u8);
        }
    });
}

#[test]
fn messages_of_the_program_are_left_alone() {
    on_ranks("messages_of_the_program_are_left_alone", |world| {
        let mut received = [0_u32; 1];
        mpi::request::scope(|scope| {
            // Of anybody, with any tag.
            let waiting = world.any_process().immediate_receive_into(scope, &mut received);
            let member = join(world);
            member.all_gather(b"of the group", late()).expect("all call");
            let next = (world.rank() + 1) % world.size();
            world.process_at_rank(next).send_with_tag(&(next as u32 + 40), 7);
            waiting.wait();
            member.barrier(late()).expect("all come");
        });
        assert_eq!(received, [world.rank() as u32 + 40]);
    });
}

#[test]
fn calls_after_mpi_has_ended_are_refused() {
    on_ranks_then("calls_after_mpi_has_ended_are_refused", join, |member| {
        let error = RendezvousError::Host { what: "MPI", why: "it has ended".into() };
        assert_eq!(member.barrier(late()), Err(error.clone()));
        assert_eq!(member.all_gather(b"", late()), Err(error));
    });
}

#[test]
fn each_rank_of_the_example_says_its_sums() {
    // Cargo builds the examples beside the tests: `deps/mpi-…` and `examples/mpi`.
    let this = env::current_exe().expect("this program");
    let example = this.ancestors().nth(2).expect("it is in a folder of the build's").join("examples/mpi");
    assert!(example.exists(), "first: cargo build --features mpi --example mpi");
    for (world, first) in [(1, 1), (2, 3), (3, 6), (4, 10)] {
        let ran = mpirun(world, &[example.to_str().expect("a name")]);
        let mut said: Vec<_> = text(&ran.stdout).lines().map(str::to_owned).collect();
        said.sort_unstable();
        let line = |rank| format!("rank {rank} of {world}: 1000 sums, the first {first}");
        assert_eq!(said, (0..world).map(line).collect::<Vec<_>>());
    }
}
