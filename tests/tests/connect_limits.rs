//! A rank that runs out of something while it is connected: it fails on all ranks, wherever that is, and leaves nothing behind.

mod meet;

use std::time::{Duration, Instant};

use allfold::rendezvous::{Rendezvous, RendezvousError, Unix};
use allfold::{Communicator, Error};
use meet::attempt::{At, attempt, small};
use meet::held::Held;
use meet::{Case, on, on_all};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lowers a limit of this process for `body`.
fn limited<T>(resource: Resource, limit: u64, body: impl FnOnce() -> T) -> T {
    let usual = getrlimit(resource);
    let low = Rlimit { current: Some(limit), maximum: usual.maximum };
    setrlimit(resource, low).expect("it is lower");
    let result = body();
    setrlimit(resource, usual).expect("it was the limit before");
    result
}

/// Rank `who` has less and less of a resource: at each step it fails in another place.
fn sweep(seat: &Unix, who: u32, resource: Resource, limits: impl Iterator<Item = u64>, wanted: &[&str]) {
    let before = Held::now();
    let mut seen = Vec::new();
    for limit in limits {
        let (result, said) = match seat.rank() == who {
            true => limited(resource, limit, || attempt(seat, small())),
            false => attempt(seat, small()),
        };
        let why = said[who as usize].clone();
        match (result, seat.rank() == who) {
            (Ok(()), _) => assert!(said.iter().all(|word| word == "connected"), "{said:?}"),
            (Err(Error::Host { .. } | Error::Rendezvous(RendezvousError::Host { .. })), true) => {}
            (Err(Error::RankFailed { rank, why: told }), false) => assert_eq!((rank, told), (who, why.clone())),
            other => panic!("{resource:?} {limit}: {other:?}"),
        }
        before.check(&format!("{resource:?} {limit}: {why}"));
        seen.push(why);
    }
    for wanted in wanted {
        assert!(seen.iter().any(|why| why.starts_with(wanted)), "no {wanted} in {seen:#?}");
    }
    assert!(seen.last().is_some_and(|why| why == "connected"), "{seen:#?}");
}

#[test]
fn b74_a_rank_out_of_file_descriptors_fails_on_all_wherever_that_is() {
    let open = || std::fs::read_dir("/proc/self/fd").expect("/proc").count() as u64 - 1;
    // Rank 0 makes sure that there are enough for its line.
    let of_rank_0: &[&str] = &["reading which host", "opening a line", "opening a socket"];
    let of_rank_1: &[&str] =
        &["reading which host", "making memory", "opening a socket", "sending a descriptor", "receiving a descriptor"];
    for (who, wanted) in [(0, of_rank_0), (1, of_rank_1)] {
        on_all("b74_a_rank_out_of_file_descriptors_fails_on_all_wherever_that_is", Case(3, who), |seat| {
            sweep(seat, who, Resource::Nofile, open() - 2..open() + 20, wanted);
        });
    }
    // Which host this is has been read, and there is none left for the line.
    on_all("b74_a_rank_out_of_file_descriptors_fails_on_all_wherever_that_is", Case(3, 2), |seat| {
        let before = Held::now();
        let usual = getrlimit(Resource::Nofile);
        let rendezvous = At::new(seat, |step| {
            if (seat.rank(), step) == (1, 1) {
                setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..usual }).expect("it is lower");
            }
        });
        let result = Communicator::connect_cpu_with(&rendezvous, small());
        setrlimit(Resource::Nofile, usual).expect("it was the limit before");
        match (result, seat.rank()) {
            (Err(Error::Rendezvous(RendezvousError::Host { what, .. })), 1) => assert!(what.starts_with("connecting")),
            (Err(Error::RankFailed { rank: 1, why }), 0 | 2) => {
                assert!(why.starts_with("connecting to the line"), "{why}")
            }
            other => panic!("{other:?}"),
        }
        before.check("after a line that one rank has not come to");
    });
}

#[test]
fn a_rank_may_say_more_than_a_pipe_holds() {
    on_all("a_rank_may_say_more_than_a_pipe_holds", Case(1, 0), |_| eprintln!("{}", "x".repeat(1 << 20)));
}

#[test]
fn what_rank_0_of_a_rendezvous_lacks_is_said_on_all_ranks() {
    let open = || std::fs::read_dir("/proc/self/fd").expect("/proc").count() as u64 - 1;
    // It can listen; and there are too few for 1, for 2, or for none of those who come.
    for more in 4..=10 {
        on("what_rank_0_of_a_rendezvous_lacks_is_said_on_all_ranks", Case(3, more), &[0, 1, 2], |guest| {
            let join = || guest.join(Instant::now() + Duration::from_secs(20));
            let joined =
                if guest.rank == 0 { limited(Resource::Nofile, open() + u64::from(more), join) } else { join() };
            let said = match &joined {
                Ok(_) => "all are there".to_owned(),
                Err(RendezvousError::Host { what, why }) => format!("{what}: {why}"),
                Err(error) => panic!("{error}"),
            };
            let enough = said == "all are there";
            assert!(enough || said.starts_with("serving the other ranks as rank 0: "), "{said}");
            assert!(enough || said.ends_with("Too many open files (os error 24)"), "{said}");
            assert!(more > 4 || !enough, "it needs three for each rank");
            assert!(more < 10 || enough, "{said}");
        });
    }
}

#[test]
fn a_rank_that_may_not_make_long_files_fails_on_all_and_lives() {
    on_all("a_rank_that_may_not_make_long_files_fails_on_all_and_lives", Case(2, 0), |seat| {
        sweep(seat, 1, Resource::Fsize, [4096, u64::from(u32::MAX)].into_iter(), &["allocating memory"]);
    });
}

#[test]
fn b74_a_rank_out_of_address_space_fails_on_all_wherever_that_is() {
    on_all("b74_a_rank_out_of_address_space_fails_on_all_wherever_that_is", Case(3, 0), |seat| {
        let pages = std::fs::read_to_string("/proc/self/statm").expect("/proc");
        let used = pages.split(' ').next().and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096;
        // Three workspaces of less than 1 MiB each, and a thread's stack of 2 MiB.
        let limits = (0..12).map(|step| used + step * (512 << 10));
        sweep(
            seat,
            1,
            Resource::As,
            limits.chain([used + (64 << 20)]),
            &["mapping shared memory", "starting a CPU rank's thread"],
        );
    });
}
