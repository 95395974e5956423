//! Ranks that meet by messages alone, as those of MPI do; here channels carry them.

use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;
use crate::rendezvous::call::Call;
use crate::rendezvous::frame::{Request, encode_answer};
use crate::rendezvous::handshake::VERSION;
use crate::rendezvous::said::{given_up, request, so_far};
use crate::rendezvous::star::{Star, Wire};

/// A rank's ends of the channels to and from each rank.
#[derive(Default)]
pub(super) struct Channels {
    to: Vec<Sender<Vec<u8>>>,
    from: Vec<Receiver<Vec<u8>>>,
}

impl Wire for Channels {
    fn send(&mut self, to: u32, message: Vec<u8>) {
        // The other may have ended.
        let _ = self.to[to as usize].send(message);
    }

    fn receive(&mut self, from: u32) -> Option<Vec<u8>> {
        self.from[from as usize].try_recv().ok()
    }

    fn is_sent(&mut self) -> bool {
        true
    }
}

/// The ends of all ranks, in rank order.
fn channels(world: u32) -> Vec<Channels> {
    let mut ranks: Vec<Channels> = (0..world).map(|_| Channels::default()).collect();
    for sends in 0..ranks.len() {
        for receives in 0..ranks.len() {
            let (sender, receiver) = channel();
            ranks[sends].to.push(sender);
            ranks[receives].from.push(receiver);
        }
    }
    ranks
}

/// One group's channels, each taken by its rank.
pub(super) struct StarPlace(Mutex<Vec<Option<Channels>>>);

impl StarPlace {
    fn take(&self, rank: u32) -> Channels {
        self.0.lock().expect("whole")[rank as usize].take().expect("comes once")
    }
}

impl Way for StarPlace {
    type Member = Star<Channels>;

    fn new(world: u32) -> StarPlace {
        StarPlace(Mutex::new(channels(world).into_iter().map(Some).collect()))
    }

    fn join(&self, rank: u32, world: u32, deadline: Instant) -> Result<Star<Channels>> {
        Star::join(self.take(rank), rank, world, deadline)
    }
}

#[test]
fn a_rank_that_waits_for_a_late_rank_0_knows_who_is_missing() {
    let way = StarPlace::new(4);
    let failed = each(0..3, |rank| {
        // Rank 0 comes, and takes the others to have as long as they say.
        std::thread::sleep(Duration::from_millis(if rank == 0 { 150 } else { 0 }));
        way.join(rank, 4, if rank == 2 { after(400) } else { late() }).map(drop)
    });
    assert_eq!(errors(failed), vec![RendezvousError::Missing { missing: vec![3] }; 3]);
}

#[test]
fn whoever_comes_when_the_others_have_given_up_hears_of_it() {
    for last in [0, 1] {
        let way = StarPlace::new(3);
        let given_up = std::sync::Barrier::new(3);
        let failed = each(0..3, |rank| {
            if rank == last {
                given_up.wait();
                return way.join(rank, 3, late()).map(drop);
            }
            let done = way.join(rank, 3, after(50)).map(drop);
            given_up.wait();
            done
        });
        assert_eq!(errors(failed), vec![RendezvousError::Missing { missing: vec![last] }; 3]);
    }
}

#[test]
fn only_a_call_that_is_not_made_can_be_given_up() {
    let mut ranks = channels(2);
    let (mut one, zero) = (ranks.remove(1), ranks.remove(0));
    let ask = |sequence, call, bytes: &[u8]| {
        request(&Request { sequence, call, left_ms: 20_000, bytes: bytes.len() as u64 }, bytes)
    };
    let missing = RendezvousError::Missing { missing: vec![0] };
    one.send(0, ask(0, Call::Join, VERSION.as_bytes()));
    let zero = Star::join(zero, 0, 2, late()).expect("both come");
    // Late, as the answer was on its way.
    one.send(0, given_up(0, &missing));
    one.send(0, ask(1, Call::Barrier, b""));
    assert_eq!(zero.barrier(late()), Ok(()));
    one.send(0, ask(2, Call::Barrier, b""));
    one.send(0, given_up(2, &missing));
    assert_eq!(zero.barrier(late()), Err(missing));
}

#[test]
fn another_version_is_named_by_all() {
    let way = StarPlace::new(3);
    let failed = errors(each(0..3, |rank| {
        let version = if rank == 1 { "0.0.1" } else { VERSION };
        Star::claim(way.take(rank), rank, 3, version, late()).map(drop)
    }));
    let error = RendezvousError::Version { rank: 1, theirs: "0.0.1".into(), ours: VERSION.into() };
    assert_eq!(failed, vec![error; 3]);
}

#[test]
fn a_message_may_be_anything() {
    let mut random = Random(6);
    let header = Request { sequence: 0, call: Call::Join, left_ms: 30, bytes: VERSION.len() as u64 };
    let gathered = vec![VERSION.as_bytes().to_vec(), VERSION.as_bytes().to_vec()];
    let failure = RendezvousError::Missing { missing: vec![1] };
    let right = [
        request(&header, VERSION.as_bytes()),
        encode_answer(&Ok(gathered)),
        encode_answer(&Err::<Vec<_>, _>(failure.clone())),
        so_far(&[1]),
        given_up(0, &failure),
    ];
    for round in 0..400 {
        let rank = round % 2;
        let mut ranks = channels(2);
        let mut other = ranks.remove(1 - rank as usize);
        for message in &right {
            other.send(rank, random.spoil(message));
        }
        let begun = Instant::now();
        if let Ok(member) = Star::join(ranks.remove(0), rank, 2, after(20)) {
            let error = member.barrier(after(20)).expect_err("the other says nothing that is right");
            assert_eq!(member.all_gather(b"", late()), Err(error));
        }
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    }
}
