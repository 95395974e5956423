//! One rank of another process, at rank 0: a thread that reads its requests, and so sees at once when it is gone; and one that
//! writes the answers.

use std::net::Shutdown;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::RendezvousError;
use super::call::{Call, MOST_BYTES};
use super::failure::SERVING;
use super::frame::{REQUEST_BYTES, Request, encode_answer, give_up};
use super::meeting::{Meeting, too_long};
use super::stream::{Cut, Stream, read_by, write_by};

/// How long the writing of an answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// How long the bytes of a request may take at least, when the rank has no time left.
const LEAST: Duration = Duration::from_millis(20);

/// Says why the group has ended.
pub(super) fn tell(stream: &mut impl Stream, error: RendezvousError) {
    let answer = encode_answer(&Err::<Vec<_>, _>(error));
    // Who has closed the connection need not know.
    let _ = write_by(stream, &answer, Instant::now() + ANSWER_LIMIT);
}

/// What keeps rank 0 from serving the others.
pub(super) fn hindered(doing: &str, error: &std::io::Error) -> RendezvousError {
    RendezvousError::Host { what: SERVING, why: format!("{doing}: {error}") }
}

/// Serves `rank`, which comes to its first call by being here.
pub(super) fn serve_rank<S: Stream>(stream: &mut S, meeting: &Meeting, rank: u32, deadline: Instant) {
    let gone = || drop(meeting.fail(RendezvousError::Gone { rank }));
    let served = stream.twin().and_then(|mut twin| {
        std::thread::scope(|scope| {
            let (due, dues) = sync_channel(1);
            let writer = Builder::new().name(format!("allfold hub {rank}"));
            writer.spawn_scoped(scope, move || write_answers(&mut twin, meeting, rank, &dues))?;
            // An error is the group's, and answered.
            let _ = meeting.arrive(rank, 0, Call::Join, Vec::new());
            if due.send(deadline).is_ok() {
                read_requests(stream, meeting, rank, &due);
            }
            // Before the writer is waited for, which waits for others.
            gone();
            Ok(())
        })
    });
    if let Err(error) = served {
        tell(stream, meeting.fail(hindered("starting a thread for a rank", &error)));
    }
    meeting.told(rank);
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
        match read_by(stream, &mut bytes, Some(deadline.max(Instant::now() + LEAST))) {
            Ok(()) => {}
            Err(Cut::Closed) => return,
            Err(Cut::Late) => return refuse(RendezvousError::Missing { missing: vec![rank] }),
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
            meeting.told(rank);
            return stream.shut(Shutdown::Both);
        }
        meeting.told(rank);
    }
    if let Some(error) = meeting.failure().filter(|_| !told) {
        tell(stream, error);
    }
}
