//! Splits of communicators of several processes that fail: a typed error on all ranks, in whatever part, and nothing left behind.

mod meet;

use std::time::{Duration, Instant};

use allfold::rendezvous::{Rendezvous, RendezvousError, Unix};
use allfold::{Communicator, Error, RankBuffers, ReduceOp};
use meet::attempt::small;
use meet::held::Held;
use meet::{Case, on_all, tell};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn connect(seat: &Unix, connect_timeout: Duration) -> Communicator {
    let options = allfold::Options { connect_timeout, timeout: Some(Duration::from_secs(10)), ..small() };
    Communicator::connect_cpu_with(seat, options).unwrap_or_else(|error| panic!("rank {}: {error}", seat.rank()))
}

/// A call whose sum tells how many take part.
fn call(comm: &mut Communicator) {
    let mut data = [1.0_f32; 100];
    comm.all_reduce(&[RankBuffers::in_place(&mut data)], ReduceOp::Sum).expect("all ranks call");
    assert_eq!(data, [comm.world() as f32; 100]);
}

/// Even ranks and odd ones, each in descending order.
fn by_parity(comm: &mut Communicator, rank: u32) -> Result<Communicator, Error> {
    comm.split(Some(rank % 2), -(rank as i32)).map(|part| part.expect("a color was given"))
}

#[test]
fn a_rank_that_does_not_come_is_named_on_all_within_the_deadline() {
    on_all("a_rank_that_does_not_come_is_named_on_all_within_the_deadline", Case(4, 0), |seat| {
        let before = Held::now();
        let mut comm = connect(seat, Duration::from_secs(1));
        let begun = Instant::now();
        if seat.rank() == 2 {
            std::thread::sleep(Duration::from_secs(3));
        }
        for _ in 0..2 {
            let error = by_parity(&mut comm, seat.rank()).expect_err("rank 2 does not come in time");
            let Error::Rendezvous(RendezvousError::Missing { missing }) = error else { panic!("{error:?}") };
            assert_eq!(missing, [2]);
        }
        // At once the second time.
        assert!((Duration::from_millis(700)..Duration::from_secs(6)).contains(&begun.elapsed()));
        call(&mut comm);
        drop(comm);
        before.check("after a split that failed");
    });
}

#[test]
fn a_rank_that_dies_meanwhile_is_named_on_all_or_died_too_late() {
    for number in 0..24 {
        let (who, dies_after) = (number % 4, Duration::from_micros(400) * (number / 4));
        on_all("a_rank_that_dies_meanwhile_is_named_on_all_or_died_too_late", Case(4, number), |seat| {
            let mut comm = connect(seat, Duration::from_secs(20));
            // Where rank 0 dies at once the others may not hear that all are there.
            if seat.barrier(Instant::now() + Duration::from_secs(20)).is_err() {
                return;
            }
            if seat.rank() == who {
                std::thread::spawn(move || {
                    std::thread::sleep(dies_after);
                    std::process::exit(0);
                });
            }
            let begun = Instant::now();
            match by_parity(&mut comm, seat.rank()) {
                Ok(_) => {}
                Err(Error::Rendezvous(RendezvousError::Gone { rank }) | Error::PeerGone { rank }) if rank == who => {}
                // It had a word for all before it died, and one of them found it gone then.
                Err(Error::RankFailed { why, .. }) if why == format!("rank {who} is gone") => {}
                Err(error) => panic!("{error:?}"),
            }
            assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
            // Until it is gone indeed.
            while seat.rank() == who || seat.barrier(Instant::now() + Duration::from_secs(20)).is_ok() {}
        });
    }
}

#[test]
fn a_rank_that_fails_is_named_on_all_as_the_whole_counts() {
    on_all("a_rank_that_fails_is_named_on_all_as_the_whole_counts", Case(4, 0), |seat| {
        let mut comm = connect(seat, Duration::from_secs(20));
        let rank = seat.rank();
        call(&mut comm);
        let before = Held::now();
        let open = std::fs::read_dir("/proc/self/fd").expect("/proc").count() as u64 - 1;
        let mut seen = Vec::new();
        for limit in [0].into_iter().chain(open - 1..open + 10) {
            tell(seat, "all go on");
            let usual = getrlimit(Resource::Nofile);
            if rank == 1 {
                setrlimit(Resource::Nofile, Rlimit { current: Some(limit), ..usual }).expect("it is lower");
            }
            let result = by_parity(&mut comm, rank);
            setrlimit(Resource::Nofile, usual).expect("it was the limit before");
            let said = tell(seat, &result.as_ref().map_or_else(Error::to_string, |_| "split".to_owned()));
            match result {
                Ok(mut part) => {
                    assert!(said.iter().all(|word| word == "split"), "{said:?}");
                    call(&mut part);
                }
                Err(Error::Host { .. } | Error::Rendezvous(RendezvousError::Host { .. })) if rank == 1 => {}
                // Rank 1 of the odd ones, or rank 1 or the first who heard of it elsewhere.
                Err(Error::RankFailed { rank: 1, why }) => assert!(why.contains(&said[1]), "{why}, {said:?}"),
                Err(error) => panic!("{limit}: {error:?}"),
            }
            before.check(&format!("limit {limit}: {}", said[1]));
            call(&mut comm);
            seen.push(said[1].clone());
        }
        for wanted in ["connecting to the line", "making memory", "opening a socket", "split"] {
            assert!(seen.iter().any(|why| why.starts_with(wanted)), "no {wanted} in {seen:#?}");
        }
    });
}

#[test]
fn parts_come_and_go_and_leave_nothing() {
    on_all("parts_come_and_go_and_leave_nothing", Case(3, 0), |seat| {
        let before = Held::now();
        let mut comm = connect(seat, Duration::from_secs(20));
        call(&mut comm);
        let with_one = Held::now();
        for turn in 0..40 {
            let color = (seat.rank() != turn % 4).then_some(turn % 2 * seat.rank());
            if let Some(mut part) = comm.split(color, 0).expect("all ranks split") {
                call(&mut part);
                let again = part.split(Some(0), 0).expect("all ranks split");
                drop(part);
                call(&mut again.expect("a color was given"));
            }
        }
        with_one.check("after 40 parts");
        tell(seat, "all have looked");
        drop(comm);
        before.check("after it all");
    });
}

#[test]
fn a_split_of_another_number_of_ranks_is_refused_on_all() {
    let mut comm = Communicator::cpu(3).expect("threads");
    assert!(matches!(comm.split(Some(0), 0), Err(Error::RankCount { local: 3, got: 1 })));
    assert!(matches!(comm.split_each(&[]), Err(Error::RankCount { local: 3, got: 0 })));
    assert!(matches!(comm.split_each(&[(None, 0); 3]).as_deref(), Ok([])));
    on_all("a_split_of_another_number_of_ranks_is_refused_on_all", Case(2, 0), |seat| {
        let mut comm = connect(seat, Duration::from_secs(20));
        let result = match seat.rank() {
            1 => comm.split_each(&[(Some(0), 0); 2]).map(drop),
            _ => comm.split(Some(0), 0).map(drop),
        };
        match (result, seat.rank()) {
            (Err(Error::RankCount { local: 1, got: 2 }), 1) | (Err(Error::RankFailed { rank: 1, .. }), 0) => {}
            other => panic!("{other:?}"),
        }
        call(&mut comm.split(Some(7), 0).expect("it may be tried again").expect("a color was given"));
    });
}
