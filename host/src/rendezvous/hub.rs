//! Rank 0's side: a thread at the door, and one for each connection, which finds out who that is, and comes to the [`Meeting`]
//! for it where it is a rank of another process: see `served.rs`.

use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::RendezvousError;
use super::frame::give_up;
use super::handshake::{Claim, Refused, receive};
use super::meeting::Meeting;
use super::secret::Secret;
use super::served::{hindered, serve_rank, tell};
use super::stream::{Listener, Stream};

/// How long a handshake may take.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// Connections at a time. More wait at the door, and a handshake may not take longer than [`SHORT_HANDSHAKE`] then: strangers that
/// keep up n connections make ranks wait for n / 64 of that.
const MOST_CONNECTIONS: usize = 64;

/// How long a handshake may take while others wait at the door; and when the hub closes, so that its rank is told why.
const SHORT_HANDSHAKE: Duration = Duration::from_millis(250);

/// How long rank 0 may be unable to let anybody in, while ranks have not come: too many open files, or the like, may pass.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long rank 0 waits, when the group has failed before it was one, for ranks that have not come.
const LINGER: Duration = Duration::from_secs(1);

/// A pause where there is nothing to wait for.
const PAUSE: Duration = Duration::from_millis(20);

struct Shared {
    meeting: Arc<Meeting>,
    secret: Secret,
    /// Which ranks have come.
    seats: Mutex<Vec<bool>>,
}

/// Serves the ranks of other processes. When it is dropped they have been told what there was to tell.
pub(super) struct Hub {
    /// The door closes when this is.
    open: Option<UnixStream>,
    door: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

/// A connection that is served.
struct Served<S> {
    stream: S,
    since: Instant,
    /// The handshake is over, and the rank has its seat.
    seated: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Hub {
    pub(super) fn start(
        listener: impl Listener,
        meeting: Arc<Meeting>,
        secret: &Secret,
    ) -> Result<Hub, RendezvousError> {
        let failed = |error: io::Error| RendezvousError::Host { what: "starting rank 0's hub", why: error.to_string() };
        let seats = (0..meeting.world()).map(|rank| rank == 0).collect();
        let shared = Arc::new(Shared { meeting, secret: secret.clone(), seats: Mutex::new(seats) });
        let (open, closing) = UnixStream::pair().map_err(failed)?;
        let inside = Arc::clone(&shared);
        let door = thread(move || door(&listener, &inside, &closing)).map_err(failed)?;
        Ok(Hub { open: Some(open), door: Some(door), shared })
    }

    /// Waits until what came of a call has been sent to all.
    pub(super) fn await_told(&self, deadline: Instant) {
        self.shared.meeting.await_told(deadline);
    }

    /// Waits for ranks that have not come yet to a group that has failed: they come to hear why.
    pub(super) fn linger(&self, deadline: Instant) {
        let last = deadline.min(Instant::now() + LINGER);
        while Instant::now() < last && self.shared.seats().contains(&false) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        drop(self.open.take());
        if let Some(door) = self.door.take() {
            // A thread that panicked has said so already.
            let _ = door.join();
        }
    }
}

fn thread(work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new().name("allfold hub".to_string()).spawn(work)
}

/// Lets connections in until `closing` is closed on the other side; then ends them.
fn door<L: Listener>(listener: &L, shared: &Arc<Shared>, closing: &UnixStream) {
    let mut served: Vec<Served<L::Stream>> = Vec::new();
    let mut shut_since = None;
    // What it takes to let one in, and tell it that there are no more.
    let mut spare = closing.try_clone().ok();
    loop {
        served.retain(|served| !served.thread.is_finished());
        let full = served.len() >= MOST_CONNECTIONS;
        if full {
            let slow = |served: &&Served<_>| !served.has_seat() && served.since.elapsed() > SHORT_HANDSHAKE;
            served.iter().filter(slow).for_each(|served| served.stream.shut(Shutdown::Both));
        }
        let mut watched = [PollFd::new(closing, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
        let pause = Timespec { tv_sec: 0, tv_nsec: PAUSE.subsec_nanos().into() };
        let polled = if full { poll(&mut watched[..1], Some(&pause)) } else { poll(&mut watched, None) };
        if !watched[0].revents().is_empty() {
            break;
        }
        if full || polled.is_err() {
            continue;
        }
        match listener.accept() {
            Ok(stream) => {
                shut_since = None;
                served.extend(serve_elsewhere(stream, shared));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => {
                if shut_since.is_none() {
                    tracing::warn!("the rendezvous can let nobody in: {error}");
                }
                let since = *shut_since.get_or_insert_with(Instant::now);
                if since.elapsed() > PATIENCE && shared.seats().contains(&false) {
                    shared.meeting.fail(hindered("letting a rank in", &error));
                    drop(spare.take());
                }
                std::thread::sleep(PAUSE);
            }
        }
    }
    // Those who have come as far as the door; strangers come without end.
    while let (true, Ok(stream)) = (served.len() < MOST_CONNECTIONS, listener.accept()) {
        served.extend(serve_elsewhere(stream, shared));
    }
    let last = Instant::now() + SHORT_HANDSHAKE;
    loop {
        served.retain(|served| !served.thread.is_finished());
        let late = Instant::now() > last;
        // No more requests; answers go out.
        let ending = served.iter().filter(|served| late || served.has_seat());
        ending.for_each(|served| served.stream.shut(Shutdown::Read));
        if late || served.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    for served in served {
        // A thread that panicked has said so already.
        let _ = served.thread.join();
    }
}

impl<S> Served<S> {
    fn has_seat(&self) -> bool {
        self.seated.load(Ordering::Acquire)
    }
}

/// A thread for the connection. Where the host has none the group ends.
fn serve_elsewhere<S: Stream>(stream: S, shared: &Arc<Shared>) -> Option<Served<S>> {
    let seated = Arc::new(AtomicBool::new(false));
    let served = stream.twin().and_then(|twin| {
        let (shared, seat) = (Arc::clone(shared), Arc::clone(&seated));
        thread(move || serve(twin, &shared, &seat))
    });
    match served {
        Ok(thread) => Some(Served { stream, since: Instant::now(), seated, thread }),
        Err(error) => {
            refuse(stream, shared, &error);
            None
        }
    }
}

/// Tells whoever this is why the group has ended, at the door itself.
fn refuse(mut stream: impl Stream, shared: &Shared, error: &io::Error) {
    let error = shared.meeting.fail(hindered("starting a thread for a connection", error));
    if let Ok((claim, _)) = receive(&mut stream, &shared.secret, Instant::now() + SHORT_HANDSHAKE) {
        // It has come. What does not fit does not matter any more.
        let _ = shared.seat(&claim);
        tell(&mut stream, error);
    }
}

/// Serves a connection to its end.
fn serve<S: Stream>(mut stream: S, shared: &Shared, seated: &AtomicBool) {
    match receive(&mut stream, &shared.secret, Instant::now() + HANDSHAKE_LIMIT) {
        Ok((claim, left_ms)) => {
            let deadline = give_up(left_ms);
            seated.store(true, Ordering::Release);
            match shared.seat(&claim) {
                Ok(()) => serve_rank(&mut stream, &shared.meeting, claim.rank, deadline),
                Err(error) => tell(&mut stream, error),
            }
        }
        Err(Refused::Secret) => tracing::warn!("the rendezvous refused a process that does not know its secret"),
        Err(Refused::NotAllfold) => tracing::warn!("the rendezvous refused a process that is not allfold"),
        Err(Refused::Cut(cut)) => tracing::debug!("a process came to the rendezvous and said too little: {cut:?}"),
    }
    // The door holds the connection, too.
    stream.shut(Shutdown::Both);
}

impl Shared {
    fn seats(&self) -> MutexGuard<'_, Vec<bool>> {
        // A list of seats is whole whatever became of a thread that held it.
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A seat for who says this. An error is the group's: who says it knows the secret.
    fn seat(&self, claim: &Claim) -> Result<(), RendezvousError> {
        let rank = claim.rank;
        // Also of a rank that does not fit: it has come.
        let taken = self.seats().get_mut(rank as usize).is_some_and(|seat| std::mem::replace(seat, true));
        let fits = claim.agrees(self.meeting.world());
        let fits = fits.and(if taken { Err(RendezvousError::Twice { rank }) } else { Ok(()) });
        fits.map_err(|error| self.meeting.fail(error))
    }
}
