//! What does not come from this code: nothing panics, nothing hangs, and nothing is made room for that may not be.

use std::io::Write;
use std::net::Shutdown;

use super::*;
use crate::rendezvous::call::{Call, MOST_BYTES};
use crate::rendezvous::failure;
use crate::rendezvous::frame::{REQUEST_BYTES, Request, encode_answer, read_answer};
use crate::rendezvous::handshake::{HELLO_BYTES, OPENING_BYTES, PROTOCOL, ask, read_hello, read_opening, receive};
use crate::rendezvous::stream::{read_by, write_by};

/// Bytes of a whole message, or none where there are too few.
fn whole<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.get(..N)?.try_into().ok()
}

#[test]
fn parsers_take_anything() {
    let mut random = Random(1);
    let request = Request { sequence: 3, call: Call::Barrier, left_ms: 1000, bytes: 12 };
    assert_eq!(Request::decode(&whole(&request.encode()).expect("whole")), Some(request));
    let errors = [
        RendezvousError::Missing { missing: vec![1, 2] },
        RendezvousError::Version { rank: 1, theirs: "1".into(), ours: "0.1.0".into() },
        RendezvousError::OutOfStep { rank: 1, sequence: 2, expected: 3 },
    ];
    for _ in 0..50_000 {
        let right = failure::encode(&errors[random.below(errors.len())]);
        let error = failure::decode(&random.spoil(&right));
        assert!(error.is_none_or(|error| failure::decode(&failure::encode(&error)) == Some(error)));
        let Some(spoiled) = whole::<REQUEST_BYTES>(&random.spoil(&request.encode())) else { continue };
        if let Some(read) = Request::decode(&spoiled) {
            assert_eq!(read.encode(), spoiled);
        }
        let bytes = random.bytes(HELLO_BYTES);
        let _ = read_opening(&whole::<OPENING_BYTES>(&bytes).expect("whole"));
        let _ = read_hello(&whole::<HELLO_BYTES>(&bytes).expect("whole"), PROTOCOL).expect("any bytes are a claim");
    }
}

#[test]
fn an_answer_may_be_anything() {
    let mut random = Random(2);
    let right = encode_answer(&Ok(vec![b"one".to_vec(), Vec::new(), vec![7; 200]]));
    let failed = encode_answer(&Err::<Vec<_>, _>(RendezvousError::Gone { rank: 2 }));
    for round in 0..3000 {
        let (mut ours, mut theirs) = UnixStream::pair().expect("a pair");
        let said = random.spoil(if round % 2 == 0 { &right } else { &failed });
        theirs.write_all(&said).expect("it fits the socket");
        // It ends, or says no more.
        if random.below(50) > 0 {
            theirs.shut(Shutdown::Write);
        }
        let begun = Instant::now();
        if let Ok(Ok(all)) = read_answer(&mut ours, 3, after(10)) {
            assert!(all.len() == 3 && all.iter().map(Vec::len).sum::<usize>() < said.len());
        }
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    }
}

#[test]
fn announced_lengths_are_bounded() {
    for said in [
        [&[0][..], &u32::MAX.to_le_bytes(), &[0; 4]].concat(),
        [&[0][..], &(MOST_BYTES as u32 + 1).to_le_bytes(), &[0; 4]].concat(),
        [&[1][..], &1025_u32.to_le_bytes()].concat(),
        vec![2],
    ] {
        let (mut ours, mut theirs) = UnixStream::pair().expect("a pair");
        theirs.write_all(&said).expect("it fits the socket");
        // Refused before it is read: nothing more comes, and the deadline is far.
        assert_eq!(read_answer(&mut ours, 2, late()), Err(None), "{said:?}");
    }
}

#[test]
fn a_handshake_may_be_anything() {
    let mut random = Random(3);
    for round in 0..600 {
        let (mut ours, mut theirs) = UnixStream::pair().expect("a pair");
        let nonce = [random.bytes(32), PROTOCOL.to_le_bytes().to_vec()].concat();
        let opening = [b"allfold\0", &nonce[32..], &nonce[..32]].concat();
        let rest = random.below(200);
        let said = [random.spoil(&opening), random.bytes(rest)].concat();
        theirs.write_all(&said).expect("it fits the socket");
        theirs.shut(Shutdown::Write);
        let begun = Instant::now();
        // By chance it is neither the secret's proof nor a welcome.
        if round % 2 == 0 {
            receive(&mut ours, &secret(), after(10)).expect_err("a stranger");
        } else {
            ask(&mut ours, &Claim::new(1, 2), &secret(), after(10)).expect("random").expect_err("a stranger");
        }
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    }
}

/// Somebody who knows the secret, and says anything then.
#[test]
fn a_rank_may_say_anything() {
    let mut random = Random(4);
    for round in 0..60 {
        let way = UnixPlace::new(2);
        let request = Request { sequence: 1, call: Call::AllGather, left_ms: 300, bytes: 5 }.encode();
        let requests: Vec<_> = (0..3).map(|_| random.spoil(&[&request[..], b"bytes"].concat())).collect();
        let begun = Instant::now();
        each(0..2, |rank| {
            if rank == 0 {
                // It may say so before rank 0 has joined.
                let Ok(member) = way.join(0, 2, late()) else { return };
                for _ in 0..4 {
                    let deadline = after(300);
                    if let Err(error) = member.all_gather(b"zero", deadline) {
                        assert_eq!(member.all_gather(b"zero", deadline).err(), Some(error));
                    }
                }
                return;
            }
            let mut stream = way.knock();
            ask(&mut stream, &Claim::new(1, 2), &secret(), late()).expect("random").expect("known");
            for request in &requests {
                // Rank 0 may have closed the connection.
                let _ = write_by(&mut stream, request, after(100));
            }
            if round % 4 > 0 {
                stream.shut(Shutdown::Write);
            }
            // What it is told, until it is told no more.
            while read_by(&mut stream, &mut [0], Some(after(1000))).is_ok() {}
        });
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    }
}

/// Somebody who does not know it says anything, and the group comes together all the same.
#[test]
fn a_stranger_may_say_anything() {
    let mut random = Random(5);
    let opening = [b"allfold\0", &PROTOCOL.to_le_bytes()[..], &[9; 32]].concat();
    let said: Vec<_> = (0..200)
        .map(|_| {
            let rest = random.below(200);
            [random.spoil(&opening), random.bytes(rest)].concat()
        })
        .collect();
    let way = TcpPlace::new(2);
    each(0..2, |rank| {
        if rank == 1 {
            for said in &said {
                // It may have been refused before all was said.
                let _ = way.knock().write_all(said);
            }
        }
        way.join(rank, 2, late()).expect("both come").barrier(late()).expect("both come");
    });
}
