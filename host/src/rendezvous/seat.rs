//! A rank of a group of processes, whatever they are connected by: rank 0 with the hub, or another with its connection.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::call::Call;
use super::client::{Client, patiently};
use super::handshake::Claim;
use super::hub::Hub;
use super::local::Local;
use super::meeting::Meeting;
use super::secret::Secret;
use super::stream::{Listener, Stream};
use super::{Rendezvous, RendezvousError, check};

/// A rank.
pub(super) struct Seat<S: Stream> {
    rank: u32,
    world: u32,
    side: Side<S>,
}

enum Side<S: Stream> {
    // In this order: rank 0 leaves before its hub does, which tells the others.
    Hub { member: Local, hub: Hub },
    // Held through a call: calls of one rank are one after the other.
    Rank(Mutex<Client<S>>),
}

impl<S: Stream> Seat<S> {
    /// Rank 0, for others to come to `listener`.
    pub(super) fn host(
        listener: impl Listener<Stream = S>,
        world: u32,
        secret: &Secret,
        deadline: Instant,
    ) -> Result<Seat<S>, RendezvousError> {
        Seat::open(listener, world, secret)?.meet(deadline)
    }

    /// A rank that connects to rank 0, as often as it takes. A test may claim what is not so.
    pub(super) fn join(
        address: &str,
        connect: impl Fn(Duration) -> io::Result<S>,
        claim: &Claim,
        secret: &Secret,
        deadline: Instant,
    ) -> Result<Seat<S>, RendezvousError> {
        let unreachable =
            |error: io::Error| RendezvousError::Unreachable { address: address.to_string(), why: error.to_string() };
        let stream = patiently(connect, deadline).map_err(unreachable)?;
        Seat::take(address, stream, claim, secret, deadline)?.meet(deadline)
    }

    /// Rank 0, to whom others may come from now on; [`Seat::meet`] comes next.
    pub(super) fn open(
        listener: impl Listener<Stream = S>,
        world: u32,
        secret: &Secret,
    ) -> Result<Seat<S>, RendezvousError> {
        check(0, world)?;
        let meeting = Arc::new(Meeting::new(world));
        let member = Local::new(Arc::clone(&meeting), 0);
        let hub = Hub::start(listener, meeting, secret)?;
        Ok(Seat { rank: 0, world, side: Side::Hub { member, hub } })
    }

    /// A rank that has connected to rank 0, and is known there; [`Seat::meet`] comes next.
    pub(super) fn take(
        address: &str,
        stream: S,
        claim: &Claim,
        secret: &Secret,
        deadline: Instant,
    ) -> Result<Seat<S>, RendezvousError> {
        let &Claim { rank, world, .. } = claim;
        let client = Client::take_seat(address, stream, claim, secret, deadline)?;
        Ok(Seat { rank, world, side: Side::Rank(Mutex::new(client)) })
    }

    /// Waits until all have come.
    pub(super) fn meet(self, deadline: Instant) -> Result<Seat<S>, RendezvousError> {
        match &self.side {
            Side::Hub { hub, .. } => {
                self.call(Call::Join, &[], deadline).inspect_err(|_| hub.linger(deadline)).map(drop)
            }
            Side::Rank(client) => client.lock().unwrap_or_else(PoisonError::into_inner).meet(deadline),
        }?;
        Ok(self)
    }

    fn call(&self, call: Call, bytes: &[u8], deadline: Instant) -> Result<Vec<Vec<u8>>, RendezvousError> {
        match &self.side {
            // The process may end at once when this returns, and the hub's threads with it.
            Side::Hub { member, hub } => member.call(call, bytes, deadline).inspect(|_| hub.await_told(deadline)),
            // A client is whole whatever became of a thread that held it: it would have failed, and says so.
            Side::Rank(client) => client.lock().unwrap_or_else(PoisonError::into_inner).call(call, bytes, deadline),
        }
    }
}

impl<S: Stream> Rendezvous for Seat<S> {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn world(&self) -> u32 {
        self.world
    }

    fn all_gather(&self, bytes: &[u8], deadline: Instant) -> Result<Vec<Vec<u8>>, RendezvousError> {
        self.call(Call::AllGather, bytes, deadline)
    }

    fn barrier(&self, deadline: Instant) -> Result<(), RendezvousError> {
        self.call(Call::Barrier, &[], deadline).map(drop)
    }
}

/// The trait for a type that wraps a [`Seat`].
macro_rules! by_its_seat {
    ($member:ty) => {
        impl Rendezvous for $member {
            fn rank(&self) -> u32 {
                self.0.rank()
            }

            fn world(&self) -> u32 {
                self.0.world()
            }

            fn all_gather(&self, bytes: &[u8], deadline: Instant) -> Result<Vec<Vec<u8>>, RendezvousError> {
                self.0.all_gather(bytes, deadline)
            }

            fn barrier(&self, deadline: Instant) -> Result<(), RendezvousError> {
                self.0.barrier(deadline)
            }
        }
    };
}

pub(super) use by_its_seat;
