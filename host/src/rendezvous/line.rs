//! A communicator's own line: where its ranks meet again as long as it lives, whatever became of the rendezvous by which they
//! were connected.
//!
//! It is a rendezvous at an abstract Unix socket, which leaves no file. Rank 0 chooses name and secret at random, and whoever
//! is to come is told both elsewhere, by a [`Ticket`]: so nobody waits for anybody until all have taken their seats.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

use super::client::patiently;
use super::handshake::Claim;
use super::seat::Seat;
use super::secret::{NONCE_BYTES, Prover, Secret, nonce};
use super::stream::Listener;
use super::unix::connect;
use super::{Rendezvous, RendezvousError};

/// Connections that may wait to be taken: all ranks', and some strangers'.
const BACKLOG: i32 = 128;

/// File descriptors that rank 0 needs at most for each rank.
const DESCRIPTORS: u32 = 3;

/// A rank of a line; `None`: it is alone, and needs no socket and no thread. When it is dropped the rank has left.
pub(crate) struct Line(Option<Seat<UnixStream>>);

/// Name and secret of a line.
pub(crate) struct Ticket([[u8; NONCE_BYTES]; 2]);

impl Ticket {
    /// In bytes, for the ranks of the line alone.
    pub(crate) fn encode(&self) -> Vec<u8> {
        self.0.concat()
    }

    /// What [`Ticket::encode`] made; `None`: it did not.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Ticket> {
        let (&name, secret) = bytes.split_first_chunk()?;
        Some(Ticket([name, secret.try_into().ok()?]))
    }

    fn name(&self) -> String {
        let digits = self.0[0].iter().take(16).map(|byte| format!("{byte:02x}"));
        format!("allfold-line-{}", digits.collect::<String>())
    }

    fn address(&self) -> rustix::io::Result<SocketAddrUnix> {
        SocketAddrUnix::new_abstract_name(self.name().as_bytes())
    }

    fn secret(&self) -> Secret {
        Secret::new(self.0[1])
    }
}

/// What the ranks of a communicator have made up together, and nobody else knows: by it some of them can meet later without a word
/// from the others.
pub(crate) struct Seed(Vec<u8>);

impl Seed {
    /// What a rank tells the others of a new one.
    ///
    /// # Errors
    /// The host has no random numbers.
    pub(crate) fn share() -> Result<Vec<u8>, RendezvousError> {
        Ok(nonce()?.to_vec())
    }

    /// The seed of ranks that have told each other this, in rank order.
    pub(crate) fn of(shares: &[Vec<u8>]) -> Seed {
        Seed(shares.concat())
    }

    /// Name and secret of the line of `ranks`.
    pub(crate) fn ticket(&self, ranks: &[u32]) -> Ticket {
        let key = Secret::new(&self.0);
        let said: Vec<u8> = ranks.iter().flat_map(|rank| rank.to_le_bytes()).collect();
        Ticket([Prover::Rank, Prover::Hub].map(|prover| key.prove(prover, &said)))
    }
}

impl Line {
    /// The line of one rank.
    pub(crate) fn alone() -> Line {
        Line(None)
    }

    /// Between two attempts to come to a rank 0 that may not be there yet.
    pub(crate) const PAUSE: Duration = Duration::from_millis(2);

    /// Rank 0 of `world` ranks, two at least, to whom others may come from now on; [`Line::meet`] comes next.
    ///
    /// # Errors
    /// [`RendezvousError::Host`], [`RendezvousError::WorldSize`].
    pub(crate) fn open(world: u32) -> Result<(Line, Ticket), RendezvousError> {
        let ticket = Ticket([nonce()?, nonce()?]);
        Ok((Line::open_at(&ticket, world)?, ticket))
    }

    /// [`Line::open`] at a name and with a secret that all ranks know.
    ///
    /// # Errors
    /// As [`Line::open`]; somebody has that name.
    pub(crate) fn open_at(ticket: &Ticket, world: u32) -> Result<Line, RendezvousError> {
        let failed = host("opening a line between ranks");
        let door = Door::new(ticket).map_err(&failed)?;
        let room = door.0.try_clone().map_err(&failed)?;
        let seat = Seat::open(door, world, &ticket.secret())?;
        // Better said here than by ranks that nobody lets in.
        let descriptors = (1..=(world - 1) * DESCRIPTORS).map(|_| room.try_clone()).collect::<io::Result<Vec<_>>>();
        descriptors.map_err(&failed)?;
        Ok(Line(Some(seat)))
    }

    /// Rank `rank` of `world`, not 0, which takes its seat; [`Line::meet`] comes next.
    ///
    /// # Errors
    /// [`RendezvousError`]: rank 0 is gone, or the host refuses what this needs.
    pub(crate) fn take(ticket: &Ticket, rank: u32, world: u32, deadline: Instant) -> Result<Line, RendezvousError> {
        // Rank 0 listens. Only where too many wait at its door another attempt is of use.
        let attempt = |_left| match ticket.address().map_err(Into::into).and_then(|address| connect(&address)) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(error),
            done => Ok(done),
        };
        let connected = patiently(attempt, deadline).flatten().and_then(|stream| {
            check_user(&stream)?;
            Ok(stream)
        });
        let stream = connected.map_err(|error| match error.kind() == ErrorKind::ConnectionRefused {
            true => RendezvousError::Gone { rank: 0 },
            false => host("connecting to the line of rank 0")(error),
        })?;
        let claim = Claim::new(rank, world);
        Seat::take(&ticket.name(), stream, &claim, &ticket.secret(), deadline).map(|seat| Line(Some(seat)))
    }

    /// Waits until all have come.
    ///
    /// # Errors
    /// [`RendezvousError`]: not all did.
    pub(crate) fn meet(self, deadline: Instant) -> Result<Line, RendezvousError> {
        self.0.map(|seat| seat.meet(deadline)).transpose().map(Line)
    }
}

impl Rendezvous for Line {
    fn rank(&self) -> u32 {
        self.0.as_ref().map_or(0, Seat::rank)
    }

    fn world(&self) -> u32 {
        self.0.as_ref().map_or(1, Seat::world)
    }

    fn all_gather(&self, bytes: &[u8], deadline: Instant) -> Result<Vec<Vec<u8>>, RendezvousError> {
        match &self.0 {
            Some(seat) => seat.all_gather(bytes, deadline),
            None => Ok(vec![bytes.to_vec()]),
        }
    }

    fn barrier(&self, deadline: Instant) -> Result<(), RendezvousError> {
        self.0.as_ref().map_or(Ok(()), |seat| seat.barrier(deadline))
    }
}

fn host(what: &'static str) -> impl Fn(io::Error) -> RendezvousError {
    move |error| RendezvousError::Host { what, why: error.to_string() }
}

/// Where the ranks of a line come in.
struct Door(UnixListener);

impl Door {
    fn new(ticket: &Ticket) -> io::Result<Door> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        bind(&socket, &ticket.address()?)?;
        listen(&socket, BACKLOG)?;
        Ok(Door(socket.into()))
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Listener for Door {
    type Stream = UnixStream;

    fn accept(&self) -> io::Result<UnixStream> {
        let (stream, _) = self.0.accept()?;
        // A stranger's is closed, as if nobody had come.
        check_user(&stream).map_err(|_| ErrorKind::WouldBlock)?;
        stream.set_nonblocking(false)?;
        Ok(stream)
    }
}

/// Refuses a process of another user at the other end of a Unix socket.
pub(crate) fn check_user(socket: impl AsFd) -> rustix::io::Result<()> {
    match sockopt::socket_peercred(socket)?.uid == rustix::process::geteuid() {
        true => Ok(()),
        false => Err(Errno::ACCESS),
    }
}
