//! The tests of every way to meet: written once, run for each.

mod fuzz;
mod served;
mod star;
mod strangers;
mod suite;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};

use super::handshake::Claim;
use super::stream::Stream;
use super::{Line, Local, Rendezvous, RendezvousError, Secret, Tcp, Ticket, Unix, local};
use crate::fuzzing::Random;

type Result<T> = std::result::Result<T, RendezvousError>;

/// Where one group meets.
trait Way: Sync {
    type Member: Rendezvous + Send + Sync;
    fn new(world: u32) -> Self;
    fn join(&self, rank: u32, world: u32, deadline: Instant) -> Result<Self::Member>;
}

/// Where processes meet.
trait Reach: Way {
    type Stream: Stream;
    /// A rank, not 0, that may claim what is not so.
    fn claim(&self, claim: &Claim, secret: &Secret, deadline: Instant) -> Result<Self::Member>;
    /// A bare connection to rank 0.
    fn knock(&self) -> Self::Stream;
}

struct Threads(Mutex<Vec<Option<Local>>>);

impl Way for Threads {
    type Member = Local;

    fn new(world: u32) -> Threads {
        Threads(Mutex::new(local(world).expect("1 to 8").into_iter().map(Some).collect()))
    }

    fn join(&self, rank: u32, _: u32, _: Instant) -> Result<Local> {
        Ok(self.0.lock().expect("whole")[rank as usize].take().expect("comes once"))
    }
}

struct TcpPlace {
    /// The port is given to nobody else, also where no listener is left.
    _held: OwnedFd,
    listener: Mutex<Option<TcpListener>>,
    address: String,
}

impl Way for TcpPlace {
    type Member = Tcp;

    fn new(_: u32) -> TcpPlace {
        let held = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("a socket");
        sockopt::set_socket_reuseaddr(&held, true).expect("a socket");
        bind(&held, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        let address = SocketAddr::try_from(getsockname(&held).expect("bound")).expect("an address");
        let listener = TcpListener::bind(address).expect("the port is held for it");
        TcpPlace { _held: held, listener: Mutex::new(Some(listener)), address: address.to_string() }
    }

    fn join(&self, rank: u32, world: u32, deadline: Instant) -> Result<Tcp> {
        let listener = if rank == 0 { self.listener.lock().expect("whole").take() } else { None };
        match listener {
            Some(listener) => Tcp::host(listener, world, &secret(), deadline),
            None => Tcp::join(&self.address, rank, world, &secret(), deadline),
        }
    }
}

impl Reach for TcpPlace {
    type Stream = TcpStream;

    fn claim(&self, claim: &Claim, secret: &Secret, deadline: Instant) -> Result<Tcp> {
        Tcp::claim(&self.address, claim, secret, deadline)
    }

    fn knock(&self) -> TcpStream {
        soon(|| TcpStream::connect(&self.address))
    }
}

struct UnixPlace(PathBuf);

impl Way for UnixPlace {
    type Member = Unix;

    fn new(_: u32) -> UnixPlace {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("allfold-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        UnixPlace(std::env::temp_dir().join(name))
    }

    fn join(&self, rank: u32, world: u32, deadline: Instant) -> Result<Unix> {
        Unix::join(&self.0, rank, world, &secret(), deadline)
    }
}

impl Reach for UnixPlace {
    type Stream = UnixStream;

    fn claim(&self, claim: &Claim, secret: &Secret, deadline: Instant) -> Result<Unix> {
        Unix::claim(&self.0, claim, secret, deadline)
    }

    fn knock(&self) -> UnixStream {
        soon(|| UnixStream::connect(&self.0))
    }
}

impl Drop for UnixPlace {
    fn drop(&mut self) {
        assert!(!self.0.exists() || std::thread::panicking(), "{} is left behind", self.0.display());
    }
}

/// A line of its own for each group; rank 0 is there from the start.
struct LinePlace(Mutex<Option<Line>>, Option<Ticket>);

impl Way for LinePlace {
    type Member = Line;

    fn new(world: u32) -> LinePlace {
        let opened = (world > 1).then(|| Line::open(world).expect("a socket and a thread"));
        let (line, ticket) = opened.unzip();
        let told = ticket.map(|ticket| Ticket::decode(&ticket.encode()).expect("it is what was told"));
        LinePlace(Mutex::new(Some(line.unwrap_or(Line::alone()))), told)
    }

    fn join(&self, rank: u32, world: u32, deadline: Instant) -> Result<Line> {
        let line = match &self.1 {
            Some(ticket) if rank > 0 => Line::take(ticket, rank, world, deadline)?,
            _ => self.0.lock().expect("whole").take().expect("comes once"),
        };
        line.meet(deadline)
    }
}

fn soon<T>(attempt: impl Fn() -> std::io::Result<T>) -> T {
    let deadline = after(5000);
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(error) if Instant::now() > deadline => panic!("{error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn secret() -> Secret {
    Secret::new("of the tests")
}

fn after(ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(ms)
}

/// Longer than anything takes that does not wait for [`late`], on a machine that does other things as well.
const SOON: Duration = Duration::from_secs(10);

/// A deadline that no test should come to.
fn late() -> Instant {
    after(40_000)
}

/// `work` for each of these ranks, each in a thread of its own.
fn each<T: Send>(ranks: impl IntoIterator<Item = u32>, work: impl Fn(u32) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = ranks.into_iter().map(|rank| scope.spawn(move || work(rank))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no rank panics")).collect()
    })
}

/// The error of each; the deadline must not have been awaited.
fn errors<T>(results: Vec<Result<T>>) -> Vec<RendezvousError> {
    results.into_iter().map(|result| result.err().expect("an error")).collect()
}
