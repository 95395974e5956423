//! Groups to which somebody says what does not come from this code: nothing panics, nothing hangs. What the readers promise of single
//! messages is in `rendezvous/fuzzing.rs`.

use std::io::Write;
use std::net::Shutdown;

use super::*;
use crate::rendezvous::call::{Call, MOST_BYTES};
use crate::rendezvous::frame::{Request, read_answer};
use crate::rendezvous::handshake::{PROTOCOL, ask};
use crate::rendezvous::stream::{read_by, write_by};

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
