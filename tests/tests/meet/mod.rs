//! Ranks that are processes: a test runs itself once more for each rank, and a hub in the first process carries their words.
//!
//! The hub is a rendezvous in its simplest form: a lock and a condition, with a socket for each rank.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use allfold::rendezvous::{Rendezvous, RendezvousError};

pub mod held;

/// Names the hub and the rank to a process that is one.
const SEAT: &str = "ALLFOLD_TEST_SEAT";
/// After so long a test is stuck.
const LIMIT: Duration = Duration::from_secs(120);

type Words = Vec<Vec<u8>>;

/// Where all ranks meet.
struct Hub {
    world: u32,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    words: Vec<Option<Vec<u8>>>,
    /// The words of rounds that all came to.
    rounds: Vec<Arc<Words>>,
    broken: Option<RendezvousError>,
}

impl Hub {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn breaks(&self, error: RendezvousError) {
        self.lock().broken.get_or_insert(error);
        self.changed.notify_all();
    }

    fn gather(&self, rank: u32, word: Vec<u8>, deadline: Instant) -> Result<Arc<Words>, RendezvousError> {
        let mut state = self.lock();
        let round = state.rounds.len();
        state.words.resize(self.world as usize, None);
        state.words[rank as usize] = Some(word);
        if state.words.iter().all(Option::is_some) {
            let words = state.words.drain(..).flatten().collect();
            state.rounds.push(Arc::new(words));
            self.changed.notify_all();
        }
        loop {
            if let Some(words) = state.rounds.get(round) {
                return Ok(Arc::clone(words));
            }
            if let Some(error) = &state.broken {
                return Err(error.clone());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let missing = (0..self.world).filter(|&rank| state.words[rank as usize].is_none()).collect();
                state.broken = Some(RendezvousError::Missing { missing });
                self.changed.notify_all();
                continue;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Serves the rank at the other end until it leaves.
    fn serve(&self, mut stream: UnixStream) {
        let Ok(rank) = number(&mut stream) else { return };
        let rank = rank as u32;
        loop {
            let request = number(&mut stream).and_then(|millis| Ok((millis, bytes(&mut stream)?)));
            let Ok((millis, word)) = request else { return self.breaks(RendezvousError::Gone { rank }) };
            let mut reply = Vec::new();
            match self.gather(rank, word, Instant::now() + Duration::from_millis(millis)) {
                Ok(words) => {
                    reply.extend(0_u64.to_le_bytes());
                    words.iter().for_each(|word| put(&mut reply, word));
                }
                Err(RendezvousError::Missing { missing }) => {
                    reply.extend(1_u64.to_le_bytes());
                    put(&mut reply, &missing.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<_>>());
                }
                Err(RendezvousError::Gone { rank }) => {
                    reply.extend(2_u64.to_le_bytes());
                    reply.extend(u64::from(rank).to_le_bytes());
                }
            }
            if stream.write_all(&reply).is_err() {
                return self.breaks(RendezvousError::Gone { rank });
            }
        }
    }
}

fn number(stream: &mut impl Read) -> io::Result<u64> {
    let mut number = [0; 8];
    stream.read_exact(&mut number)?;
    Ok(u64::from_le_bytes(number))
}

fn bytes(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; number(stream)? as usize];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn put(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend((bytes.len() as u64).to_le_bytes());
    to.extend(bytes);
}

/// One rank's end of the hub.
pub struct Seat {
    rank: u32,
    world: u32,
    stream: UnixStream,
}

impl Seat {
    fn take(address: &str, rank: u32, world: u32) -> Seat {
        let address = SocketAddr::from_abstract_name(address).expect("an address");
        let mut stream = UnixStream::connect_addr(&address).expect("the hub is there");
        stream.write_all(&u64::from(rank).to_le_bytes()).expect("it listens");
        Seat { rank, world, stream }
    }

    fn ask(&self, bytes_of_rank: &[u8], deadline: Instant) -> io::Result<Result<Words, RendezvousError>> {
        let mut stream = &self.stream;
        let left = deadline.saturating_duration_since(Instant::now());
        let mut request = (left.as_millis() as u64).to_le_bytes().to_vec();
        put(&mut request, bytes_of_rank);
        stream.write_all(&request)?;
        Ok(match number(&mut stream)? {
            0 => Ok((0..self.world).map(|_| bytes(&mut stream)).collect::<io::Result<_>>()?),
            1 => {
                let missing = bytes(&mut stream)?;
                let missing = missing.chunks(4).map(|rank| u32::from_le_bytes(rank.try_into().unwrap())).collect();
                Err(RendezvousError::Missing { missing })
            }
            _ => Err(RendezvousError::Gone { rank: number(&mut stream)? as u32 }),
        })
    }

    /// The words of all ranks, with all the time that a test has.
    pub fn tell(&self, word: &str) -> Vec<String> {
        let words = self.all_gather(word.as_bytes(), Instant::now() + LIMIT).expect("all ranks come");
        words.into_iter().map(|word| String::from_utf8(word).expect("words")).collect()
    }

    /// Leaves the hub, as a process that ends does.
    pub fn leave(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Rendezvous for Seat {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn world(&self) -> u32 {
        self.world
    }

    fn all_gather(&self, bytes: &[u8], deadline: Instant) -> Result<Words, RendezvousError> {
        // The hub gone: so is whoever started it.
        self.ask(bytes, deadline).unwrap_or(Err(RendezvousError::Gone { rank: self.rank }))
    }
}

/// A rank that is a thread of this process.
pub struct Thread {
    rank: u32,
    hub: Arc<Hub>,
}

impl Thread {
    /// All ranks of a group.
    pub fn all(world: u32) -> Vec<Thread> {
        let hub = Arc::new(Hub { world, state: Mutex::default(), changed: Condvar::new() });
        (0..world).map(|rank| Thread { rank, hub: Arc::clone(&hub) }).collect()
    }
}

impl Rendezvous for Thread {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn world(&self) -> u32 {
        self.hub.world
    }

    fn all_gather(&self, bytes: &[u8], deadline: Instant) -> Result<Words, RendezvousError> {
        self.hub.gather(self.rank, bytes.to_vec(), deadline).map(|words| words.to_vec())
    }
}

/// Which run of a test's it is: of how many ranks, and which of those.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case(pub u32, pub u32);

/// Runs `body` in a process for each of `ranks`, of the world of `case`. `test` is the name of the test that calls this, and
/// each rank another run of it: what a test does beside this it does in each.
pub fn on(test: &str, case: Case, ranks: &[u32], body: impl FnOnce(&Seat)) {
    let Case(world, number) = case;
    if let Ok(seat) = std::env::var(SEAT) {
        let words: Vec<_> = seat.split(' ').collect();
        let [address, of, numbered, rank] = words[..] else { panic!("{seat}") };
        if (of, numbered) == (&world.to_string(), &number.to_string()) {
            body(&Seat::take(address, rank.parse().expect("a rank"), world));
            std::process::exit(0);
        }
        return;
    }
    static HUBS: AtomicU32 = AtomicU32::new(0);
    let address = format!("allfold-test-{}-{}", std::process::id(), HUBS.fetch_add(1, Ordering::Relaxed));
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&address).unwrap()).expect("a socket");
    let hub = Arc::new(Hub { world, state: Mutex::default(), changed: Condvar::new() });
    let seats = ranks.len();
    let seat = |rank: u32| (rank, start(test, &format!("{address} {world} {number} {rank}")));
    let mut children: Vec<_> = ranks.iter().copied().map(seat).collect();
    let (taken, seats_taken) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(seats).flatten() {
            let hub = Arc::clone(&hub);
            std::thread::spawn(move || hub.serve(stream));
            let _ = taken.send(());
        }
    });
    let begun = Instant::now();
    let mut failures = String::new();
    for (rank, child) in &mut children {
        let status = loop {
            match child.try_wait().expect("it is a child") {
                Some(status) => break status,
                None if begun.elapsed() > LIMIT => {
                    child.kill().expect("it runs");
                    break child.wait().expect("it was killed");
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        if !status.success() {
            let mut said = String::new();
            let _ = child.stdout.take().expect("it is piped").read_to_string(&mut said);
            let _ = child.stderr.take().expect("it is piped").read_to_string(&mut said);
            let _ = writeln!(failures, "rank {rank} of {case:?}: {status}\n{said}");
        }
    }
    assert!(failures.is_empty(), "{failures}");
    // A test of another name runs nothing, and well.
    for _ in ranks {
        seats_taken.recv_timeout(Duration::from_secs(5)).expect("all ranks have run this test");
    }
}

/// [`on`] for all ranks.
pub fn on_all(test: &str, case: Case, body: impl FnOnce(&Seat)) {
    on(test, case, &(0..case.0).collect::<Vec<_>>(), body);
}

fn start(test: &str, seat: &str) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(SEAT, seat)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("one more process")
}
