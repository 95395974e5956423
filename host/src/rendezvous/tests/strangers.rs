//! Who comes to rank 0 and is no rank, or not the rank that is waited for; and who is there in its place.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;

use super::suite::suite;
use super::*;
use crate::rendezvous::handshake::{PROTOCOL, VERSION};

/// Errors of ranks 0 and 1, who mean well, and of one more that says `claim`.
fn with<W: Reach>(world: u32, claim: &Claim, deadline: Instant) -> Vec<RendezvousError> {
    let way = W::new(world);
    errors(each(0..3, |rank| match rank {
        2 => way.claim(claim, &secret(), deadline).map(drop),
        rank => way.join(rank, world, deadline).map(drop),
    }))
}

fn all_are(error: RendezvousError, errors: &[RendezvousError]) {
    assert!(errors.len() > 1 && errors.iter().all(|e| *e == error), "{errors:?}");
}

fn a_rank_that_never_comes_is_named<W: Reach>() {
    each(1..4, |missing| {
        let way = W::new(4);
        let ranks = (0..4).filter(|rank| *rank != missing);
        let begun = Instant::now();
        let failed = errors(each(ranks, |rank| way.join(rank, 4, after(2000))));
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        all_are(RendezvousError::Missing { missing: vec![missing] }, &failed);
    });
}

fn no_rank_0_is_said_with_its_address<W: Reach>() {
    let way = W::new(2);
    // What would listen is not asked to: it is dropped.
    drop(way.join(0, 1, late()).expect("alone"));
    let begun = Instant::now();
    let error = way.join(1, 2, after(100)).err().expect("nobody is there");
    assert!(begun.elapsed() < SOON);
    assert!(matches!(error, RendezvousError::Unreachable { .. }), "{error}");
}

fn another_world_is_refused_by_all<W: Reach>() {
    let failed = with::<W>(3, &Claim::new(2, 5), late());
    all_are(RendezvousError::World { rank: 2, theirs: 5, ours: 3 }, &failed);
}

fn another_version_is_refused_by_all<W: Reach>() {
    let theirs = "9.8.7-rc.1".to_string();
    let failed = with::<W>(3, &Claim { version: theirs.clone(), ..Claim::new(2, 3) }, late());
    all_are(RendezvousError::Version { rank: 2, theirs, ours: VERSION.to_string() }, &failed);
}

fn another_protocol_is_refused_by_all<W: Reach>() {
    let failed = with::<W>(3, &Claim { protocol: 77, ..Claim::new(2, 3) }, late());
    all_are(RendezvousError::Protocol { rank: 2, theirs: 77, ours: PROTOCOL }, &failed);
}

fn no_such_rank_is_refused_by_all<W: Reach>() {
    all_are(RendezvousError::NoSuchRank { rank: 3, world: 3 }, &with::<W>(3, &Claim::new(3, 3), after(1500)));
}

fn the_same_rank_twice_is_refused_by_all<W: Reach>() {
    // Rank 2 never comes, and rank 0 waits for it a while, to tell it.
    all_are(RendezvousError::Twice { rank: 1 }, &with::<W>(3, &Claim::new(1, 3), after(1500)));
    // Nobody who joins claims this.
    all_are(RendezvousError::Twice { rank: 0 }, &with::<W>(3, &Claim::new(0, 3), after(1500)));
}

fn a_second_rank_0_is_told_that_the_place_is_taken<W: Reach>() {
    let way = W::new(2);
    each(0..2, |rank| {
        let member = way.join(rank, 2, late()).expect("all come");
        if rank == 0 {
            let begun = Instant::now();
            let error = way.join(0, 2, late()).err().expect("there is a rank 0");
            assert!(matches!(error, RendezvousError::InUse { .. }), "{error}");
            assert!(error.to_string().contains("by another rank 0") && begun.elapsed() < SOON);
        }
        // The first goes on.
        member.barrier(late()).expect("all come");
    });
}

fn the_same_rank_twice_is_refused_when_all_are_there<W: Reach>() {
    let way = W::new(2);
    let members = each(0..2, |rank| way.join(rank, 2, late()).expect("all come"));
    let twin = way.claim(&Claim::new(1, 2), &secret(), late()).map(drop);
    let called = each(0..2, |rank| members[rank as usize].barrier(late()));
    all_are(RendezvousError::Twice { rank: 1 }, &errors([vec![twin], called].concat()));
}

fn a_wrong_secret_is_refused_and_the_group_goes_on<W: Reach>() {
    let way = W::new(2);
    each(0..2, |rank| {
        if rank == 1 {
            for wrong in ["", "of the test", "of the tests "] {
                let refused = way.claim(&Claim::new(1, 2), &Secret::new(wrong), late());
                assert_eq!(refused.err(), Some(RendezvousError::Secret { rank: 1 }));
                // A world that is wrong as well is not heard.
                let refused = way.claim(&Claim::new(1, 7), &Secret::new(wrong), late());
                assert_eq!(refused.err(), Some(RendezvousError::Secret { rank: 1 }));
            }
        }
        way.join(rank, 2, late()).expect("all come").barrier(late()).expect("all come");
    });
}

fn strangers_do_not_disturb<W: Reach>() {
    let way = W::new(2);
    each(0..2, |rank| {
        let mut strangers = Vec::new();
        if rank == 1 {
            for said in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", b"allfold\0", &[0; 300], b"allfold\0\x01\0\0\0nonce"] {
                for leaves in [true, false] {
                    let mut stranger = way.knock();
                    // It may have been refused before all was said.
                    let _ = stranger.write_all(said);
                    if leaves {
                        stranger.shut(Shutdown::Both);
                    }
                    strangers.push(stranger);
                }
            }
        }
        let member = way.join(rank, 2, late()).expect("all come");
        member.barrier(late()).expect("all come");
        strangers.extend((0..u32::from(rank == 1)).map(|_| way.knock()));
        member.barrier(late()).expect("all come");
    });
}

fn more_strangers_than_there_is_room_for<W: Reach>() {
    let way = W::new(2);
    each(0..2, |rank| {
        if rank == 1 {
            let crowd: Vec<_> = (0..70).map(|_| way.knock()).collect();
            // Those in front leave, and make room.
            drop(crowd);
        }
        way.join(rank, 2, late()).expect("all come").barrier(late()).expect("all come");
    });
}

fn strangers_that_stay_make_room<W: Reach>() {
    let way = W::new(2);
    each(0..2, |rank| {
        let crowd: Vec<_> = (0..if rank == 1 { 150 } else { 0 }).map(|_| way.knock()).collect();
        let begun = Instant::now();
        way.join(rank, 2, late()).expect("all come").barrier(late()).expect("all come");
        // Each may take 5 s to say who it is where nobody waits.
        assert!(rank == 0 || begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        drop(crowd);
    });
}

suite!(TcpPlace as tcp, UnixPlace as unix: [
    a_rank_that_never_comes_is_named,
    no_rank_0_is_said_with_its_address,
    another_world_is_refused_by_all,
    another_version_is_refused_by_all,
    another_protocol_is_refused_by_all,
    no_such_rank_is_refused_by_all,
    the_same_rank_twice_is_refused_by_all,
    the_same_rank_twice_is_refused_when_all_are_there,
    a_wrong_secret_is_refused_and_the_group_goes_on,
    strangers_do_not_disturb,
    more_strangers_than_there_is_room_for,
    strangers_that_stay_make_room,
    a_second_rank_0_is_told_that_the_place_is_taken,
]);

/// What rank 1 gets where a stranger listens in place of rank 0, and does this.
fn stranger_as_rank_0(deadline: Instant, does: impl FnOnce(TcpStream) + Send + 'static) -> (RendezvousError, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    let stranger = std::thread::spawn(move || does(listener.accept().expect("a rank").0));
    let error = Tcp::join(&address, 1, 2, &secret(), deadline).err().expect("a stranger");
    stranger.join().expect("whole");
    (error, address)
}

#[test]
fn another_program_in_place_of_rank_0_is_known() {
    let (error, address) = stranger_as_rank_0(late(), |mut stream| {
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("written");
        let _ = stream.read(&mut [0; 1000]);
    });
    assert_eq!(error, RendezvousError::NotAllfold { address });
    let (error, _) = stranger_as_rank_0(late(), drop);
    assert_eq!(error, RendezvousError::Gone { rank: 0 });
    let (error, address) = stranger_as_rank_0(after(100), |stream| {
        std::thread::sleep(Duration::from_millis(150));
        drop(stream);
    });
    let why = "it accepts, and says nothing".to_string();
    assert_eq!(error, RendezvousError::Unreachable { address, why });
}

#[test]
fn a_hub_that_does_not_know_the_secret_is_known() {
    let (error, _) = stranger_as_rank_0(late(), |mut stream| {
        let mut opening = [0; 44];
        stream.read_exact(&mut opening).expect("an opening");
        stream.write_all(&opening).expect("written");
        let mut hello = [0; 76];
        stream.read_exact(&mut hello).expect("a hello");
        // Its own proof sent back.
        stream.write_all(&[1]).expect("written");
        stream.write_all(&hello[44..]).expect("written");
    });
    assert_eq!(error, RendezvousError::Secret { rank: 1 });
}

#[test]
fn a_port_in_use_is_said() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let begun = Instant::now();
    let error = Tcp::join(&address, 0, 2, &secret(), late()).err();
    assert_eq!(error, Some(RendezvousError::InUse { address }));
    // TEST-NET-1 is no address of this machine.
    let error = Tcp::join("192.0.2.1:29500", 0, 2, &secret(), late()).err().expect("not ours");
    assert!(matches!(error, RendezvousError::Listen { .. }), "{error}");
    for odd in ["", "127.0.0.1", "127.0.0.1:port", ":"] {
        let error = Tcp::join(odd, 0, 2, &secret(), late()).err().expect("no address");
        assert!(matches!(error, RendezvousError::Listen { .. }), "{odd:?}: {error}");
    }
    assert!(begun.elapsed() < SOON);
}

#[test]
fn rank_0_may_come_last_and_by_name() {
    let way = TcpPlace::new(3);
    drop(way.listener.lock().expect("whole").take());
    let address = way.address.replace("127.0.0.1", "localhost");
    each(0..3, |rank| {
        std::thread::sleep(Duration::from_millis(if rank == 0 { 100 } else { 0 }));
        Tcp::join(&address, rank, 3, &secret(), late()).expect("all come").barrier(late()).expect("all come");
    });
}

#[test]
fn one_of_several_rank_0s_gets_the_place_of_a_dead_one() {
    for _ in 0..50 {
        let place = UnixPlace::new(1);
        drop(std::os::unix::net::UnixListener::bind(&place.0).expect("a socket"));
        let members = each(0..6, |_| place.join(0, 1, late()));
        let (got, refused): (Vec<_>, Vec<_>) = members.iter().partition(|member| member.is_ok());
        let address = place.0.display().to_string();
        assert!(refused.iter().all(|e| e.as_ref().err() == Some(&RendezvousError::InUse { address: address.clone() })));
        assert_eq!(got.len(), 1);
        let file = std::fs::metadata(&place.0).expect("the socket");
        assert_eq!(file.permissions().mode() & 0o777, 0o600);
        UnixStream::connect(&place.0).expect("it listens");
    }
}

#[test]
fn a_dead_socket_is_replaced_and_nothing_else_is() {
    let place = UnixPlace::new(1);
    drop(std::os::unix::net::UnixListener::bind(&place.0).expect("a socket"));
    assert!(place.0.exists(), "its file stays");
    let member = place.join(0, 1, late()).expect("alone");
    let other = place.join(0, 1, late()).err();
    assert_eq!(other, Some(RendezvousError::InUse { address: place.0.display().to_string() }));
    drop(member);
    assert!(!place.0.exists(), "its file goes");
    std::fs::write(&place.0, "a file").expect("written");
    let error = place.join(0, 1, late()).err().expect("a file is there");
    assert!(matches!(error, RendezvousError::InUse { .. }), "{error}");
    assert_eq!(std::fs::read(&place.0).expect("still there"), b"a file");
    std::fs::remove_file(&place.0).expect("removed");
    let error = Unix::join(PathBuf::from("/tmp").join("x".repeat(300)), 0, 1, &secret(), late()).err();
    assert!(matches!(error, Some(RendezvousError::Listen { .. })), "{error:?}");
    let gone = std::fs::metadata(&place.0).map_err(|error| error.kind());
    assert_eq!(gone.err(), Some(ErrorKind::NotFound));
}
