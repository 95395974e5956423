//! What ranks and rank 0 send each other after the handshake: a request for each call, and its answer.
//!
//! ```text
//! request   sequence u64, call u8, time left in ms u32, bytes u64; then so many bytes
//! answer    0; each rank's bytes u32, in rank order; then the bytes of all
//!           1; bytes u32; then a failure
//! ```

use std::time::{Duration, Instant};

use super::bytes::{Reader, Writer};
use super::call::{Call, MOST_BYTES};
use super::failure::{self, MOST_FAILURE_BYTES};
use super::stream::{Cut, Stream, read_by};
use super::{MAX_WORLD, RendezvousError};

/// Bytes of a request before the bytes that it gives.
pub(super) const REQUEST_BYTES: usize = 21;

/// A request, without the bytes that it gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Calls of this rank before this one; the meeting itself is one.
    pub(super) sequence: u64,
    pub(super) call: Call,
    /// Until the deadline.
    pub(super) left_ms: u32,
    /// Bytes that follow.
    pub(super) bytes: u64,
}

impl Request {
    pub(super) fn encode(&self) -> Vec<u8> {
        Writer::default().u64(self.sequence).u8(self.call.code()).u32(self.left_ms).u64(self.bytes).0
    }

    /// `None`: there is no such call.
    pub(super) fn decode(header: &[u8; REQUEST_BYTES]) -> Option<Request> {
        let mut from = Reader(header);
        let (sequence, call) = (from.u64()?, Call::of_code(from.u8()?)?);
        let (left_ms, bytes) = (from.u32()?, from.u64()?);
        from.end(Request { sequence, call, left_ms, bytes })
    }
}

/// The time until `deadline` as it is sent.
pub(super) fn left_ms(deadline: Instant) -> u32 {
    let left = deadline.saturating_duration_since(Instant::now());
    left.as_millis().min(u128::from(u32::MAX)) as u32
}

/// When rank 0 gives up a call whose rank has so much time left: a little before that rank does, so that it can be told
/// who is missing.
pub(super) fn give_up(left_ms: u32) -> Instant {
    let told_ms = (left_ms / 8).min(250);
    Instant::now() + Duration::from_millis(u64::from(left_ms - told_ms))
}

/// An answer in bytes.
pub(super) fn encode_answer(answer: &Result<impl AsRef<[Vec<u8>]>, RendezvousError>) -> Vec<u8> {
    let to = Writer::default();
    match answer {
        Ok(gathered) => {
            let gathered = gathered.as_ref();
            let to = gathered.iter().fold(to.u8(0), |to, bytes| to.u32(bytes.len() as u32));
            gathered.iter().fold(to, |to, bytes| to.bytes(bytes)).0
        }
        Err(error) => {
            let bytes = failure::encode(error);
            to.u8(1).u32(bytes.len() as u32).bytes(&bytes).0
        }
    }
}

/// An answer for `world` ranks. `Err(None)`: what came is none.
pub(super) fn read_answer(
    stream: &mut impl Stream,
    world: u32,
    deadline: Instant,
) -> Result<Result<Vec<Vec<u8>>, RendezvousError>, Option<Cut>> {
    decode_answer(world, |buffer| read_by(stream, buffer, Some(deadline)))
}

/// An answer for `world` ranks, from wherever `fill` has the next bytes. `Err(None)`: what came is none.
pub(super) fn decode_answer<E>(
    world: u32,
    mut fill: impl FnMut(&mut [u8]) -> Result<(), E>,
) -> Result<Result<Vec<Vec<u8>>, RendezvousError>, Option<E>> {
    let mut read = |bytes: u32, most: usize| {
        if bytes as usize > most {
            return Err(None);
        }
        let mut buffer = vec![0; bytes as usize];
        fill(&mut buffer).map_err(Some)?;
        Ok(buffer)
    };
    match read(1, 1)?[..] {
        [0] if world <= MAX_WORLD => {
            let lengths = read(4 * world, 4 * MAX_WORLD as usize)?;
            let (lengths, _) = lengths.as_chunks();
            Ok(Ok(lengths
                .iter()
                .map(|&length| read(u32::from_le_bytes(length), MOST_BYTES))
                .collect::<Result<_, _>>()?))
        }
        [1] => {
            let length = Reader(&read(4, 4)?).u32().ok_or(None)?;
            Ok(Err(failure::decode(&read(length, MOST_FAILURE_BYTES)?).ok_or(None)?))
        }
        _ => Err(None),
    }
}
