//! What holds wherever ranks meet.

use std::sync::Barrier;

use super::star::StarPlace;
use super::*;
use crate::rendezvous::{Call, MOST_BYTES};

fn right_results<W: Way>() {
    for world in 1..=8 {
        let way = W::new(world);
        let given = |rank: u32, call: u64| {
            let mut random = Random(u64::from(rank) << 32 | call);
            let count = random.below(if call == 3 { 100_000 } else { 40 });
            random.bytes(count)
        };
        each(0..world, |rank| {
            let member = way.join(rank, world, late()).expect("all come");
            assert_eq!((member.rank(), member.world()), (rank, world));
            for call in 0..5 {
                let all = member.all_gather(&given(rank, call), late()).expect("all call");
                assert!(all.iter().enumerate().all(|(rank, bytes)| *bytes == given(rank as u32, call)), "{call}");
                assert_eq!(all.len(), world as usize);
                member.barrier(late()).expect("all call");
            }
        });
    }
}

fn the_most_bytes_are_taken<W: Way>() {
    let way = W::new(2);
    each(0..2, |rank| {
        let member = way.join(rank, 2, late()).expect("all come");
        let all = member.all_gather(&vec![rank as u8; MOST_BYTES], late()).expect("as many as there may be");
        assert!(all == [vec![0; MOST_BYTES], vec![1; MOST_BYTES]]);
    });
}

fn nobody_leaves_before_the_last_has_come<W: Way>() {
    for last in [0, 2] {
        let way = W::new(3);
        let come = AtomicU32::new(0);
        each(0..3, |rank| {
            if rank == last {
                std::thread::sleep(Duration::from_millis(30));
            }
            let member = way.join(rank, 3, late()).expect("all come");
            std::thread::sleep(Duration::from_millis(if rank == last { 30 } else { 0 }));
            come.fetch_add(1, Ordering::Relaxed);
            member.barrier(late()).expect("all come");
            assert_eq!(come.load(Ordering::Relaxed), 3);
        });
    }
}

fn a_missing_rank_is_named_in_time<W: Way>() {
    each(0..3, |missing| {
        let way = W::new(3);
        let (others_done, all_done) = (Barrier::new(3), Barrier::new(3));
        let failed = each(0..3, |rank| {
            let member = way.join(rank, 3, late()).expect("all come");
            member.barrier(late()).expect("all come");
            let (begun, deadline) = (Instant::now(), after(2000));
            let error = (rank != missing).then(|| member.barrier(deadline).expect_err("one is missing"));
            assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
            others_done.wait();
            // All are still there: what comes later fails as this did, at once; also what comes too late.
            let again = member.all_gather(b"again", if rank == missing { deadline } else { late() });
            assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
            all_done.wait();
            [error, again.err()]
        });
        let error = RendezvousError::Missing { missing: vec![missing] };
        let said: Vec<_> = failed.iter().flatten().flatten().collect();
        assert!(said.len() == 5 && said.iter().all(|e| **e == error), "{failed:?}");
    });
}

fn a_rank_that_leaves_is_named_at_once<W: Way>() {
    for gone in 0..3 {
        let way = W::new(3);
        let failed = each(0..3, |rank| {
            let member = way.join(rank, 3, late()).expect("all come");
            member.barrier(late()).expect("all come");
            if rank == gone {
                return None;
            }
            // Also where the next call is made when all others have ended.
            std::thread::sleep(Duration::from_millis(30 * u64::from(rank)));
            member.all_gather(b"all?", late()).err()
        });
        let others = failed.iter().flatten().filter(|e| **e == RendezvousError::Gone { rank: gone }).count();
        assert_eq!(others, 2, "{failed:?}");
    }
}

fn different_calls_are_refused_by_all<W: Way>() {
    let way = W::new(3);
    let failed = errors(each(0..3, |rank| {
        let member = way.join(rank, 3, late()).expect("all come");
        let done = match rank {
            1 => member.barrier(late()),
            _ => member.all_gather(b"", late()).map(drop),
        };
        std::thread::sleep(Duration::from_millis(20));
        done
    }));
    assert!(failed.iter().all(|error| *error == failed[0]), "{failed:?}");
    let RendezvousError::DifferentCalls { call, other_call, .. } = failed[0] else { panic!("{failed:?}") };
    assert!([call, other_call].contains(&Call::Barrier) && [call, other_call].contains(&Call::AllGather));
}

fn too_many_bytes_are_refused_by_all<W: Way>() {
    for greedy in 0..2 {
        let way = W::new(2);
        let failed = errors(each(0..2, |rank| {
            let member = way.join(rank, 2, late()).expect("all come");
            let bytes = vec![0; if rank == greedy { MOST_BYTES + 1 } else { 1 }];
            let done = member.all_gather(&bytes, late());
            std::thread::sleep(Duration::from_millis(20));
            done
        }));
        let (bytes, most_bytes) = (MOST_BYTES as u64 + 1, MOST_BYTES as u64);
        let error = RendezvousError::TooLong { rank: greedy, bytes, most_bytes };
        assert!(failed.iter().all(|e| *e == error), "{failed:?}");
    }
}

/// A test of each of these properties for each way to meet.
macro_rules! suite {
    ($($way:ident as $name:ident),*: $tests:tt) => {
        $(mod $name {
            $crate::rendezvous::tests::suite::suite!(@ $way, $tests);
        })*
    };
    (@ $way:ident, [$($test:ident),* $(,)?]) => {
        $(#[test]
        fn $test() {
            super::$test::<super::$way>();
        })*
    };
}

pub(super) use suite;

suite!(Threads as threads, TcpPlace as tcp, UnixPlace as unix, LinePlace as line, StarPlace as star: [
    right_results,
    the_most_bytes_are_taken,
    nobody_leaves_before_the_last_has_come,
    a_missing_rank_is_named_in_time,
    a_rank_that_leaves_is_named_at_once,
    different_calls_are_refused_by_all,
    too_many_bytes_are_refused_by_all,
]);

#[test]
fn groups_that_cannot_be_are_refused() {
    for world in [0, 9, u32::MAX] {
        let error = RendezvousError::WorldSize { world };
        assert_eq!(local(world).err(), Some(error.clone()));
        assert_eq!(Tcp::join("127.0.0.1:1", 0, world, &secret(), late()).err(), Some(error.clone()));
        assert_eq!(Unix::join("/nowhere", 1, world, &secret(), late()).err(), Some(error));
    }
    let error = RendezvousError::NoSuchRank { rank: 2, world: 2 };
    assert_eq!(Tcp::join("127.0.0.1:1", 2, 2, &secret(), late()).err(), Some(error));
}

#[test]
fn members_are_send_and_sync() {
    fn both<T: Send + Sync>() {}
    both::<Local>();
    both::<Tcp>();
    both::<Unix>();
}
