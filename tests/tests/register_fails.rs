//! Buffers that cannot be registered, and ranks that do not come to it: the same error on every rank, in time, and the communicator
//! is as good as before wherever its line is.

mod meet;

use std::time::{Duration, Instant};

use allfold::rendezvous::{Rendezvous, RendezvousError, Unix};
use allfold::{
    Algorithm, CallOptions, Communicator, Error, Memory, Options, RankBuffers, ReduceOp, Registered, Registration, Span,
};
use meet::held::Held;
use meet::{Case, on_all};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const BYTES: usize = 1 << 14;

fn connect(seat: &Unix, timeout: Duration) -> Communicator {
    let options = Options { connect_timeout: timeout, captured_calls: 4, ..Options::for_processes() };
    Communicator::connect_cpu_with(seat, options).expect("all ranks come")
}

const LONG: Duration = Duration::from_secs(60);

fn register(comm: &mut Communicator, span: Span) -> Result<Registration, Error> {
    // SAFETY: every test keeps the memory as long as the communicator.
    unsafe { comm.register(&[span]) }
}

/// A call that uses the buffers, and its sum.
fn sums(comm: &mut Communicator, memory: &mut Memory, name: Registration) {
    let world = comm.world() as f32;
    let call = CallOptions { registered: Registered::By { input: name, output: name }, ..CallOptions::default() };
    let data = memory.as_mut_slice::<f32>().expect("host memory");
    data.fill(1.0);
    let plan = comm.all_reduce_with(&[RankBuffers::in_place(data)], ReduceOp::Sum, &call).expect("all ranks call");
    assert!(data.iter().all(|&x| x == world), "{plan:?}");
}

#[test]
fn b64_b74_what_others_cannot_map_is_named_on_every_rank() {
    on_all("b64_b74_what_others_cannot_map_is_named_on_every_rank", Case(3, 0), |seat| {
        let mut comm = connect(seat, LONG);
        let own = vec![0_u8; BYTES];
        // Threads have their names once they run.
        let mut memory = Memory::host(BYTES).expect("a little memory");
        let name = register(&mut comm, memory.span()).expect("all can be mapped");
        sums(&mut comm, &mut memory, name);
        comm.release(name).expect("all ranks release it");
        drop(memory);
        let before = Held::settled();
        let mut memory = Memory::host(BYTES).expect("a little memory");
        for turn in 0..3 {
            // One rank has memory of its process alone, or two have.
            let bad = if turn == 2 { seat.rank() > 0 } else { seat.rank() == turn };
            let span = if bad { Span::of(&own) } else { memory.span() };
            let error = register(&mut comm, span).expect_err("it cannot be mapped");
            let who = if turn == 2 { 1 } else { turn };
            assert!(matches!(&error, Error::NotShareable { rank, .. } if *rank == who), "{error:?}");
            assert!(error.to_string().contains("allfold::Memory"), "{error}");
        }
        let name = register(&mut comm, memory.span()).expect("all can be mapped");
        sums(&mut comm, &mut memory, name);
        comm.release(name).expect("all ranks release it");
        drop(memory);
        before.check("after registrations");
    });
}

#[test]
fn a_rank_that_does_not_come_is_missed_in_time() {
    for (number, finish) in [(0, false), (1, true)] {
        on_all("a_rank_that_does_not_come_is_missed_in_time", Case(3, number), |seat| {
            let mut comm = connect(seat, Duration::from_secs(2));
            let memory = Memory::host(BYTES).expect("a little memory");
            let begun = Instant::now();
            if seat.rank() == 1 {
                // It lives, and does something else meanwhile.
                std::thread::sleep(Duration::from_secs(6));
                return;
            }
            let error = match finish {
                true => comm.finish_capture(),
                false => register(&mut comm, memory.span()).map(drop),
            };
            let error = error.expect_err("rank 1 does not come");
            assert!(
                matches!(&error, Error::Rendezvous(RendezvousError::Missing { missing }) if *missing == [1]),
                "{error:?}"
            );
            assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        });
    }
}

#[test]
fn a_rank_that_is_gone_is_named() {
    on_all("a_rank_that_is_gone_is_named", Case(3, 0), |seat| {
        let mut comm = connect(seat, LONG);
        let memory = Memory::host(BYTES).expect("a little memory");
        let begun = Instant::now();
        if seat.rank() == 2 {
            return;
        }
        let error = register(&mut comm, memory.span()).expect_err("rank 2 has left");
        assert!(matches!(error, Error::Rendezvous(RendezvousError::Gone { rank: 2 })), "{error:?}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        // What was made before works on, as far as it needs no line.
        comm.check().expect("nothing was given up");
        seat.barrier(Instant::now() + LONG).expect_err("rank 2 is gone from there too");
    });
}

#[test]
fn b74_a_rank_out_of_file_descriptors_fails_on_all() {
    on_all("b74_a_rank_out_of_file_descriptors_fails_on_all", Case(2, 0), |seat| {
        let mut comm = connect(seat, LONG);
        let mut memory = Memory::host(BYTES).expect("a little memory");
        // Threads have their names once they run.
        let name = register(&mut comm, memory.span()).expect("nothing is short");
        sums(&mut comm, &mut memory, name);
        comm.release(name).expect("all ranks release it");
        let before = Held::settled();
        let usual = getrlimit(Resource::Nofile);
        let open = std::fs::read_dir("/proc/self/fd").expect("/proc").count() as u64 - 1;
        let mut failed = 0;
        for more in 0..8 {
            if seat.rank() == 1 {
                let low = Rlimit { current: Some(open + more), ..usual };
                setrlimit(Resource::Nofile, low).expect("it is lower");
            }
            let result = register(&mut comm, memory.span());
            setrlimit(Resource::Nofile, usual).expect("it was the limit before");
            match (result, seat.rank()) {
                (Ok(name), _) => {
                    sums(&mut comm, &mut memory, name);
                    comm.release(name).expect("all ranks release it");
                }
                (Err(Error::Host { .. }), 1) | (Err(Error::RankFailed { rank: 1, .. }), 0) => failed += 1,
                other => panic!("{more} more descriptors: {other:?}"),
            }
            before.check(&format!("{more} more descriptors"));
        }
        assert!((1..8).contains(&failed), "{failed} of 8 failed");
    });
}

#[test]
fn ranks_that_release_different_names_are_told_and_keep_them() {
    on_all("ranks_that_release_different_names_are_told_and_keep_them", Case(2, 0), |seat| {
        let mut comm = connect(seat, LONG);
        let mut memory = Memory::host(BYTES).expect("a little memory");
        let names = [0, 1].map(|_| register(&mut comm, memory.span()).expect("both are alike"));
        let error = comm.release(names[seat.rank() as usize]).expect_err("they differ");
        assert!(matches!(error, Error::Disagreement { .. }), "{error:?}");
        // Nothing is gone, and ranks are as much in step as before.
        names.iter().for_each(|&name| sums(&mut comm, &mut memory, name));
        comm.release(names[0]).expect("both release it");
        // One rank has a name that is gone.
        let name = names[1 - usize::from(seat.rank() == 1)];
        match (comm.release(name), seat.rank()) {
            (Err(Error::NotRegistered), 1) | (Err(Error::RankFailed { rank: 1, .. }), 0) => {}
            other => panic!("{other:?}"),
        }
        let third = register(&mut comm, memory.span()).expect("ranks are in step");
        sums(&mut comm, &mut memory, third);
        comm.release(third).expect("both release it");
        comm.release(names[1]).expect("it is there still");
    });
}

#[test]
fn a_rank_that_must_refuse_tells_the_others_at_once() {
    on_all("a_rank_that_must_refuse_tells_the_others_at_once", Case(3, 0), |seat| {
        let mut comm = connect(seat, LONG);
        let mut memory = Memory::host(BYTES).expect("a little memory");
        let begun = Instant::now();
        let spans = [memory.span(), memory.span()];
        // Rank 0 gives two buffers for one rank.
        let result = match seat.rank() {
            // SAFETY: the memory lives as long as the communicator.
            0 => unsafe { comm.register(&spans) },
            _ => register(&mut comm, memory.span()),
        };
        match (result, seat.rank()) {
            (Err(Error::RankCount { local: 1, got: 2 }), 0) | (Err(Error::RankFailed { rank: 0, .. }), 1 | 2) => {}
            other => panic!("{other:?}"),
        }
        assert!(begun.elapsed() < LONG / 2, "{:?}", begun.elapsed());
        let name = register(&mut comm, memory.span()).expect("nothing is wrong now");
        sums(&mut comm, &mut memory, name);
    });
}

#[test]
fn more_captured_calls_than_one_message_holds_are_finished() {
    const CALLS: usize = 66_000;
    on_all("more_captured_calls_than_one_message_holds_are_finished", Case(2, 0), |seat| {
        let options = Options { captured_calls: 15_000, connect_timeout: LONG, ..Options::for_processes() };
        let mut comm = Communicator::connect_cpu_with(seat, options).expect("both come");
        let mut memory = Memory::host(BYTES).expect("a little memory");
        let data = memory.as_mut_slice::<f32>().expect("host memory");
        data.fill(1.0);
        let later = CallOptions { registered: Registered::Later, ..CallOptions::default() };
        let captured = comm
            .capture(&[], |comm| {
                for number in 0..CALLS {
                    // Most of them use nobody's buffers.
                    let algorithm = if number % 5 == 0 { Algorithm::OnePass } else { Algorithm::OneShotPush };
                    let call = CallOptions { algorithm: Some(algorithm), ..later };
                    comm.all_reduce_with(&[RankBuffers::in_place(&mut data[..1])], ReduceOp::Sum, &call)?;
                }
                Ok(())
            })
            .expect("there is room");
        comm.finish_capture().expect("both have captured the same");
        drop(captured);
        let name = register(&mut comm, memory.span()).expect("the line is as good as before");
        sums(&mut comm, &mut memory, name);
    });
}
