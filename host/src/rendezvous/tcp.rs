//! Ranks that meet at a TCP address.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};

use super::handshake::Claim;
use super::seat::{Seat, by_its_seat};
use super::{Rendezvous, RendezvousError, Secret, check};

/// Longest that connecting to one of several addresses may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);

/// Least that it may: the system takes none for an error.
const LEAST: Duration = Duration::from_millis(2);

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
        if is_exposed(&listener, secret) {
            tracing::warn!("ranks meet where other machines may come, without a secret: whoever comes may be a rank");
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
    let bound = resolve(address, deadline).and_then(|addresses| listen_at(&addresses));
    bound.map_err(|error| match error.kind() == ErrorKind::AddrInUse {
        true => RendezvousError::InUse { address: address.to_string() },
        false => RendezvousError::Listen { address: address.to_string(), why: error.to_string() },
    })
}

/// Listens at the first of these that can be, if nobody else listens at any: the others might come to that one.
fn listen_at(addresses: &[SocketAddr]) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(addresses)?;
    let own = listener.local_addr()?;
    match addresses.iter().any(|address| *address != own && in_use(address)) {
        true => Err(ErrorKind::AddrInUse.into()),
        false => Ok(listener),
    }
}

/// Whether somebody listens there. It takes the address without listening: nobody may come to this.
fn in_use(address: &SocketAddr) -> bool {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let bound = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None).and_then(|socket| {
        // Connections that have ended are not in the way.
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, address)
    });
    bound == Err(rustix::io::Errno::ADDRINUSE)
}

/// The first of these that takes the connection.
fn connect(addresses: &[SocketAddr], left: Duration) -> io::Result<TcpStream> {
    let deadline = Instant::now() + left;
    let mut failed = io::Error::from(ErrorKind::NotFound);
    for address in addresses {
        let left = deadline.saturating_duration_since(Instant::now()).clamp(LEAST, CONNECT_LIMIT);
        match TcpStream::connect_timeout(address, left) {
            Ok(stream) if is_own(&stream)? => failed = ErrorKind::ConnectionRefused.into(),
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Where nobody listens at a port that is free, the system may connect a socket to itself.
fn is_own(stream: &TcpStream) -> io::Result<bool> {
    Ok(stream.local_addr()? == stream.peer_addr()?)
}

/// Whether anybody may be a rank who reaches this machine.
fn is_exposed(listener: &TcpListener, secret: &Secret) -> bool {
    let loopback = listener.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback());
    !loopback && *secret == Secret::default()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    fn bound(address: impl Into<SocketAddr>) -> TcpListener {
        TcpListener::bind(address.into()).expect("a free port")
    }

    #[test]
    fn an_address_of_several_that_is_in_use_is_noticed() {
        let other = bound((Ipv4Addr::LOCALHOST, 0));
        let taken = other.local_addr().expect("an address");
        let free = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), taken.port()));
        for addresses in [[free, taken], [taken, free]] {
            assert_eq!(listen_at(&addresses).map_err(|error| error.kind()).err(), Some(ErrorKind::AddrInUse));
        }
        drop(other);
        assert_eq!(listen_at(&[taken, free, taken]).expect("both are free").local_addr().ok(), Some(taken));
        // TEST-NET-1 is no address of this machine: nobody can listen there.
        let elsewhere = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), taken.port()));
        assert_eq!(listen_at(&[elsewhere, taken]).expect("one is free").local_addr().ok(), Some(taken));
    }

    #[test]
    fn a_socket_that_is_connected_to_itself_is_known() {
        for to in [Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED] {
            let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("one");
            bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
            let stream = TcpStream::from(socket);
            let port = stream.local_addr().expect("an address").port();
            rustix::net::connect(&stream, &SocketAddr::from((to, port))).expect("to itself");
            assert!(is_own(&stream).expect("connected"), "{to}");
        }
        let listener = bound((Ipv4Addr::LOCALHOST, 0));
        let stream = TcpStream::connect(listener.local_addr().expect("an address")).expect("it listens");
        assert!(!is_own(&stream).expect("connected"));
    }

    #[test]
    fn a_place_that_others_reach_needs_a_secret() {
        for (address, open) in [(Ipv4Addr::LOCALHOST, false), (Ipv4Addr::UNSPECIFIED, true)] {
            let listener = bound((address, 0));
            assert_eq!(is_exposed(&listener, &Secret::default()), open);
            assert!(!is_exposed(&listener, &Secret::new("one")));
        }
        // A machine may be without IPv6.
        let own = TcpListener::bind((Ipv6Addr::LOCALHOST, 0));
        assert!(!own.is_ok_and(|listener| is_exposed(&listener, &Secret::default())));
    }
}
