//! Ranks that know the secret and do not read, or stand still in the middle: here by the bytes that they send.

use std::io::Write;

use super::*;
use crate::rendezvous::call::{Call, MOST_BYTES};
use crate::rendezvous::frame::{Request, encode_answer, read_answer};
use crate::rendezvous::handshake::{ask, receive};
use crate::rendezvous::stream::write_by;

/// A rank 1 of 2 that has met rank 0.
fn rank_1(way: &UnixPlace) -> UnixStream {
    let mut stream = way.knock();
    ask(&mut stream, &Claim::new(1, 2), &secret(), late()).expect("random").expect("known");
    assert_eq!(read_answer(&mut stream, 2, late()), Ok(Ok(vec![Vec::new(); 2])));
    stream
}

#[test]
fn rank_0_returns_when_all_have_been_sent_what_came_of_the_call() {
    let way = UnixPlace::new(2);
    let done = AtomicU32::new(0);
    each(0..2, |rank| {
        if rank == 0 {
            let member = way.join(0, 2, late()).expect("both come");
            member.all_gather(&vec![0; MOST_BYTES], late()).expect("both call");
            done.store(1, Ordering::Relaxed);
            // As a process that ends: nothing more is written.
            return std::mem::forget(member);
        }
        let mut stream = rank_1(&way);
        let request = Request { sequence: 1, call: Call::AllGather, left_ms: 30_000, bytes: MOST_BYTES as u64 };
        write_by(&mut stream, &[request.encode(), vec![1; MOST_BYTES]].concat(), late()).expect("rank 0 reads");
        // More than a socket holds: it cannot all be sent before it is read.
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(done.load(Ordering::Relaxed), 0, "rank 0 may have ended, and the answer with it");
        read_answer(&mut stream, 2, late()).expect("whole").expect("both called");
    });
    // The rank 0 that was forgotten.
    std::fs::remove_file(&way.0).expect("its file");
}

#[test]
fn a_rank_that_stands_still_in_a_call_is_missing_and_not_gone() {
    let way = UnixPlace::new(2);
    each(0..2, |rank| {
        let missing = RendezvousError::Missing { missing: vec![1] };
        if rank == 0 {
            let member = way.join(0, 2, late()).expect("both come");
            assert_eq!(member.all_gather(b"zero", late()).err(), Some(missing));
            return;
        }
        let mut stream = rank_1(&way);
        let request = Request { sequence: 1, call: Call::AllGather, left_ms: 100, bytes: 5 };
        stream.write_all(&request.encode()).expect("rank 0 reads");
        assert_eq!(read_answer(&mut stream, 2, late()), Ok(Err(missing)));
    });
}

#[test]
fn the_word_of_rank_0_counts_though_it_comes_late() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    let deadline = after(200);
    let missing = RendezvousError::Missing { missing: vec![2] };
    each(0..2, |rank| {
        if rank == 1 {
            assert_eq!(Tcp::join(&address, 1, 3, &secret(), deadline).err(), Some(missing.clone()));
            return;
        }
        let (mut stream, _) = listener.accept().expect("rank 1");
        receive(&mut stream, &secret(), late()).expect("it is known");
        std::thread::sleep(deadline.saturating_duration_since(Instant::now()) + Duration::from_millis(5));
        write_by(&mut stream, &encode_answer(&Err::<Vec<_>, _>(missing.clone())), late()).expect("rank 1 reads");
    });
}
