//! What ranks of a [`Star`](super::star::Star) send each other.
//!
//! ```text
//! rank -> 0   2, a request, the bytes that it gives    it comes to a call
//!             4, sequence u64, a failure               it gives up that call, unless an answer is on its way
//!             1, a failure                             it has failed, or it leaves
//! 0 -> rank   0, an answer                             all came
//!             1, a failure                             the group has ended
//!             3, a failure: ranks that are missing     so far, so that a rank that gives up knows whom it waits for
//! ```
//!
//! What is sent to a rank arrives in order. A failure by itself is the last that a rank says.

use super::RendezvousError;
use super::bytes::{Reader, Writer};
use super::failure;
use super::frame::{REQUEST_BYTES, Request, decode_answer};

/// What opens a message beside those of [`super::frame::encode_answer`].
const REQUEST: u8 = 2;
const SO_FAR: u8 = 3;
const GIVEN_UP: u8 = 4;

/// What one rank has said to another.
pub(super) enum Said {
    Request(Request, Vec<u8>),
    GivenUp(u64, RendezvousError),
    Answer(Vec<Vec<u8>>),
    Failure(RendezvousError),
    SoFar(RendezvousError),
}

/// A request with the bytes that it gives.
pub(super) fn request(header: &Request, bytes: &[u8]) -> Vec<u8> {
    [&[REQUEST], &header.encode()[..], bytes].concat()
}

/// That a rank gives up a call.
pub(super) fn given_up(sequence: u64, why: &RendezvousError) -> Vec<u8> {
    Writer::default().u8(GIVEN_UP).u64(sequence).bytes(&failure::encode(why)).0
}

/// Who has not come yet.
pub(super) fn so_far(missing: &[u32]) -> Vec<u8> {
    let missing = RendezvousError::Missing { missing: missing.to_vec() };
    Writer::default().u8(SO_FAR).bytes(&failure::encode(&missing)).0
}

impl Said {
    /// What a message says; `None`: it is none.
    pub(super) fn read(message: &[u8], world: u32) -> Option<Said> {
        match *message.first()? {
            REQUEST => {
                let (header, bytes) = message[1..].split_first_chunk::<REQUEST_BYTES>()?;
                let request = Request::decode(header)?;
                (request.bytes == bytes.len() as u64).then(|| Said::Request(request, bytes.to_vec()))
            }
            SO_FAR => failure::decode(&message[1..]).map(Said::SoFar),
            GIVEN_UP => {
                let mut from = Reader(&message[1..]);
                let sequence = from.u64()?;
                failure::decode(from.0).map(|why| Said::GivenUp(sequence, why))
            }
            _ => {
                let mut rest = message;
                let answer = decode_answer::<()>(world, |buffer| {
                    let (bytes, left) = rest.split_at_checked(buffer.len()).ok_or(())?;
                    buffer.copy_from_slice(bytes);
                    rest = left;
                    Ok(())
                });
                rest.is_empty().then_some(())?;
                answer.ok().map(|answer| answer.map_or_else(Said::Failure, Said::Answer))
            }
        }
    }
}
