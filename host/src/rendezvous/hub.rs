//! Rank 0's side: a thread at the door, and two for each connection, which come to the [`Meeting`] for a rank of another
//! process. One reads requests, and so sees at once when its rank is gone; one writes answers.

use std::io::ErrorKind;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::RendezvousError;
use super::call::{Call, MOST_BYTES};
use super::frame::{REQUEST_BYTES, Request, encode_answer, give_up};
use super::handshake::{Claim, Refused, receive};
use super::meeting::{Meeting, too_long};
use super::secret::Secret;
use super::stream::{Listener, Stream, read_by, write_by};

/// How long a handshake may take.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// How long the writing of an answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Connections at a time. More wait at the door: a stranger can make ranks wait for [`HANDSHAKE_LIMIT`], and no more.
const MOST_CONNECTIONS: usize = 64;

/// How long a handshake may still take when the hub closes, so that its rank is told why.
const LAST_HANDSHAKES: Duration = Duration::from_millis(250);

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
        let failed =
            |error: std::io::Error| RendezvousError::Host { what: "starting rank 0's hub", why: error.to_string() };
        let seats = (0..meeting.world()).map(|rank| rank == 0).collect();
        let shared = Arc::new(Shared { meeting, secret: secret.clone(), seats: Mutex::new(seats) });
        let (open, closing) = UnixStream::pair().map_err(failed)?;
        let inside = Arc::clone(&shared);
        let door = thread(move || door(&listener, &inside, &closing)).map_err(failed)?;
        Ok(Hub { open: Some(open), door: Some(door), shared })
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

fn thread(work: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    Builder::new().name("allfold hub".to_string()).spawn(work)
}

/// Lets connections in until `closing` is closed on the other side; then ends them.
fn door<L: Listener>(listener: &L, shared: &Arc<Shared>, closing: &UnixStream) {
    let mut served: Vec<Served<L::Stream>> = Vec::new();
    loop {
        served.retain(|served| !served.thread.is_finished());
        let full = served.len() >= MOST_CONNECTIONS;
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
            Ok(stream) => served.extend(serve_elsewhere(stream, shared)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // Too many open files, or the like: it may pass.
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
    // Those who have come as far as the door; strangers come without end.
    while let (true, Ok(stream)) = (served.len() < MOST_CONNECTIONS, listener.accept()) {
        served.extend(serve_elsewhere(stream, shared));
    }
    let last = Instant::now() + LAST_HANDSHAKES;
    loop {
        served.retain(|served| !served.thread.is_finished());
        let late = Instant::now() > last;
        // No more requests; answers go out.
        let ending = served.iter().filter(|served| late || served.seated.load(Ordering::Acquire));
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

/// A thread for the connection; none where the host has none: then it is closed.
fn serve_elsewhere<S: Stream>(stream: S, shared: &Arc<Shared>) -> Option<Served<S>> {
    let twin = stream.twin().ok()?;
    let shared = Arc::clone(shared);
    let seated = Arc::new(AtomicBool::new(false));
    let seat = Arc::clone(&seated);
    match thread(move || serve(twin, &shared, &seat)) {
        Ok(thread) => Some(Served { stream, seated, thread }),
        Err(error) => {
            tracing::warn!("a connection to the rendezvous is closed: no thread for it: {error}");
            None
        }
    }
}

/// Serves a connection to its end.
fn serve<S: Stream>(mut stream: S, shared: &Shared, seated: &AtomicBool) {
    match receive(&mut stream, &shared.secret, Instant::now() + HANDSHAKE_LIMIT) {
        Ok((claim, left_ms)) => {
            let deadline = give_up(left_ms);
            seated.store(true, Ordering::Release);
            match shared.seat(&claim) {
                Ok(()) => serve_rank(&mut stream, shared, claim.rank, deadline),
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

fn tell(stream: &mut impl Stream, error: RendezvousError) {
    let answer = encode_answer(&Err::<Vec<_>, _>(error));
    // Who has closed the connection need not know.
    let _ = write_by(stream, &answer, Instant::now() + ANSWER_LIMIT);
}

/// Serves `rank`, which comes to its first call by being here.
fn serve_rank<S: Stream>(stream: &mut S, shared: &Shared, rank: u32, deadline: Instant) {
    let meeting = &*shared.meeting;
    let gone = || drop(meeting.fail(RendezvousError::Gone { rank }));
    let Ok(mut twin) = stream.twin() else { return gone() };
    // An error is the group's, and answered.
    let _ = meeting.arrive(rank, 0, Call::Join, Vec::new());
    std::thread::scope(|scope| {
        let (due, dues) = sync_channel(1);
        let writer = Builder::new().name(format!("allfold hub {rank}"));
        if writer.spawn_scoped(scope, move || write_answers(&mut twin, meeting, rank, &dues)).is_err() {
            return gone();
        }
        if due.send(deadline).is_ok() {
            read_requests(stream, meeting, rank, &due);
        }
        // Before the writer is waited for, which waits for others.
        gone();
    });
}

/// Until the rank is gone, or says what cannot be.
fn read_requests(stream: &mut impl Stream, meeting: &Meeting, rank: u32, due: &SyncSender<Instant>) {
    let refuse = |error| {
        meeting.fail(error);
        // The writer is gone where the rank is.
        let _ = due.send(Instant::now());
    };
    let mut header = [0; REQUEST_BYTES];
    while read_by(stream, &mut header, None).is_ok() {
        let Some(request) = Request::decode(&header) else { return refuse(RendezvousError::Garbled { rank }) };
        if request.bytes > MOST_BYTES as u64 {
            return refuse(too_long(rank, request.bytes));
        }
        let deadline = give_up(request.left_ms);
        let mut bytes = vec![0; request.bytes as usize];
        if read_by(stream, &mut bytes, Some(deadline.max(Instant::now() + PAUSE))).is_err() {
            return;
        }
        // An error is the group's, and answered.
        let _ = meeting.arrive(rank, request.sequence, request.call, bytes);
        if due.send(deadline).is_err() {
            return;
        }
    }
}

/// An answer to each request; at the end, what the rank has not been told.
fn write_answers(stream: &mut impl Stream, meeting: &Meeting, rank: u32, dues: &Receiver<Instant>) {
    let mut told = false;
    for deadline in dues {
        let answer = meeting.wait(rank, deadline);
        told = answer.is_err();
        let answer = encode_answer(&answer.as_deref().map_err(Clone::clone));
        if write_by(stream, &answer, Instant::now() + ANSWER_LIMIT).is_err() {
            meeting.fail(RendezvousError::Gone { rank });
            return stream.shut(Shutdown::Both);
        }
    }
    if let Some(error) = meeting.failure().filter(|_| !told) {
        tell(stream, error);
    }
}
