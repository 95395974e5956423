//! Ranks that meet at a TCP address.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::handshake::Claim;
use super::seat::{Seat, by_its_seat};
use super::{Rendezvous, RendezvousError, Secret, check};

/// Longest that connecting to one of several addresses may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);

/// A rank of a group of processes that meet at a TCP address of this machine. When it is dropped the rank has left.
pub struct Tcp(Seat<TcpStream>);

by_its_seat!(Tcp);

impl Tcp {
    /// Rank `rank` of `world` meets the others at `address`, `"127.0.0.1:29500"`: rank 0 listens there, and nowhere else,
    /// and the others connect, in any order. Whoever may reach it is asked for the secret.
    ///
    /// Rank 0 goes on listening as long as it lives, so that a second process of the same rank is noticed: it ends the
    /// group. Where the ranks do not fit together it waits up to a second more for those that have not come, to tell them.
    ///
    /// # Errors
    /// [`RendezvousError`]: not all ranks came in time, or they do not fit together.
    pub fn join(
        address: &str,
        rank: u32,
        world: u32,
        secret: &Secret,
        deadline: Instant,
    ) -> Result<Tcp, RendezvousError> {
        check(rank, world)?;
        if rank == 0 {
            return Tcp::host(listen(address, deadline)?, world, secret, deadline);
        }
        Tcp::claim(address, &Claim::new(rank, world), secret, deadline)
    }

    /// Rank 0, with a listener that there is already: one of port 0 has a port that is free.
    ///
    /// # Errors
    /// As [`Tcp::join`].
    pub fn host(listener: TcpListener, world: u32, secret: &Secret, deadline: Instant) -> Result<Tcp, RendezvousError> {
        if let Err(error) = listener.set_nonblocking(true) {
            let address = listener.local_addr().map_or_else(|error| error.to_string(), |address| address.to_string());
            return Err(RendezvousError::Listen { address, why: error.to_string() });
        }
        Seat::host(listener, world, secret, deadline).map(Tcp)
    }

    /// A rank that may claim what is not so.
    pub(super) fn claim(
        address: &str,
        claim: &Claim,
        secret: &Secret,
        deadline: Instant,
    ) -> Result<Tcp, RendezvousError> {
        let addresses = resolve(address, deadline)
            .map_err(|error| RendezvousError::Unreachable { address: address.to_string(), why: error.to_string() })?;
        Seat::join(address, |left| connect(&addresses, left), claim, secret, deadline).map(Tcp)
    }
}

/// What `address` means. A name is looked up elsewhere: that has no deadline of its own.
fn resolve(address: &str, deadline: Instant) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = address.parse() {
        return Ok(vec![address]);
    }
    let (found, wanted) = channel();
    let name = address.to_string();
    let look_up = move || drop(found.send(name.to_socket_addrs().map(|all| all.collect::<Vec<_>>())));
    std::thread::Builder::new().name("allfold name".to_string()).spawn(look_up)?;
    let left = deadline.saturating_duration_since(Instant::now());
    let addresses = wanted.recv_timeout(left).map_err(|_| io::Error::from(ErrorKind::TimedOut))??;
    if addresses.is_empty() { Err(ErrorKind::NotFound.into()) } else { Ok(addresses) }
}

fn listen(address: &str, deadline: Instant) -> Result<TcpListener, RendezvousError> {
    let bound = resolve(address, deadline).and_then(|addresses| TcpListener::bind(&addresses[..]));
    bound.map_err(|error| match error.kind() == ErrorKind::AddrInUse {
        true => RendezvousError::InUse { address: address.to_string() },
        false => RendezvousError::Listen { address: address.to_string(), why: error.to_string() },
    })
}

/// The first of these that takes the connection.
fn connect(addresses: &[SocketAddr], left: Duration) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(ErrorKind::NotFound);
    for address in addresses {
        match TcpStream::connect_timeout(address, left.min(CONNECT_LIMIT)) {
            // Where nobody listens at a port that is free, the system may connect a socket to itself.
            Ok(stream) if stream.local_addr()? == *address => failed = ErrorKind::ConnectionRefused.into(),
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}
