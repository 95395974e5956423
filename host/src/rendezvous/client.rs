//! A rank other than 0: its connection to rank 0.

use std::io;
use std::net::Shutdown;
use std::time::{Duration, Instant};

use super::RendezvousError;
use super::call::{Call, MOST_BYTES};
use super::frame::{Request, left_ms, read_answer};
use super::handshake::{Claim, Refused, ask};
use super::meeting::too_long;
use super::secret::Secret;
use super::stream::{Cut, Stream, write_by};

/// Between attempts to connect: the first pause, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(50)];

/// What a call has at least, also where its deadline has passed: rank 0 may know why there is no use in it. And how much longer
/// than its deadline it waits for the word of rank 0, which knows who is missing, and may be late with it.
const LEAST: Duration = Duration::from_millis(200);

/// A rank's side of its connection to rank 0.
pub(super) struct Client<S: Stream> {
    stream: S,
    rank: u32,
    world: u32,
    /// Calls made so far.
    calls: u64,
    /// Why there will be no more.
    failed: Option<RendezvousError>,
}

impl<S: Stream> Client<S> {
    /// Takes its seat over a new connection; [`Client::meet`] comes next. `address` is for errors.
    pub(super) fn take_seat(
        address: &str,
        mut stream: S,
        claim: &Claim,
        secret: &Secret,
        deadline: Instant,
    ) -> Result<Client<S>, RendezvousError> {
        let address = address.to_string();
        let refused = |refused| match refused {
            Refused::Cut(Cut::Closed) => RendezvousError::Gone { rank: 0 },
            Refused::Cut(Cut::Late) => {
                RendezvousError::Unreachable { address, why: "it accepts, and says nothing".to_string() }
            }
            Refused::NotAllfold => RendezvousError::NotAllfold { address },
            Refused::Secret => RendezvousError::Secret { rank: claim.rank },
        };
        let protocol = ask(&mut stream, claim, secret, deadline)?.map_err(refused)?;
        let &Claim { rank, world, protocol: theirs, .. } = claim;
        if protocol != theirs {
            return Err(RendezvousError::Protocol { rank, theirs, ours: protocol });
        }
        Ok(Client { stream, rank, world, calls: 1, failed: None })
    }

    /// Waits until all have come: the first call, which taking the seat has made.
    pub(super) fn meet(&mut self, deadline: Instant) -> Result<(), RendezvousError> {
        self.answer(deadline).map(drop)
    }

    pub(super) fn call(
        &mut self,
        call: Call,
        bytes: &[u8],
        deadline: Instant,
    ) -> Result<Vec<Vec<u8>>, RendezvousError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let sequence = self.calls;
        self.calls += 1;
        let mut request = Request { sequence, call, left_ms: left_ms(deadline), bytes: bytes.len() as u64 }.encode();
        if bytes.len() <= MOST_BYTES {
            request.extend_from_slice(bytes);
        }
        let deadline = deadline.max(Instant::now() + LEAST);
        let sent = write_by(&mut self.stream, &request, deadline);
        let done = if bytes.len() > MOST_BYTES {
            // Rank 0 has been told how many they are, and tells the others.
            Err(too_long(self.rank, bytes.len() as u64))
        } else if sent == Err(Cut::Late) {
            Err(RendezvousError::Missing { missing: vec![0] })
        } else {
            // Also where it could not be sent: rank 0 may have said why, before it closed the connection.
            self.answer(deadline)
        };
        if let Err(error) = &done {
            self.failed = Some(error.clone());
            self.stream.shut(Shutdown::Both);
        }
        done
    }

    fn answer(&mut self, deadline: Instant) -> Result<Vec<Vec<u8>>, RendezvousError> {
        read_answer(&mut self.stream, self.world, deadline + LEAST).unwrap_or_else(|cut| {
            Err(match cut {
                Some(Cut::Closed) => RendezvousError::Gone { rank: 0 },
                Some(Cut::Late) => RendezvousError::Missing { missing: vec![0] },
                None => RendezvousError::Garbled { rank: 0 },
            })
        })
    }
}

/// Tries until the deadline: rank 0 may start last.
pub(super) fn patiently<S>(connect: impl Fn(Duration) -> io::Result<S>, deadline: Instant) -> io::Result<S> {
    let [mut pause, longest] = PAUSES;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match connect(left.max(PAUSES[0])) {
            Ok(stream) => return Ok(stream),
            Err(error) if left <= pause => return Err(error),
            Err(_) => std::thread::sleep(pause),
        }
        pause = (2 * pause).min(longest);
    }
}
