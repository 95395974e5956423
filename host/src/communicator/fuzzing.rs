//! What fuzzing asks of what ranks tell each other of a split. See `crate::fuzzing`.

use super::split::{Seat, decode, encode};
use crate::fuzzing::canonical;

/// Color and key of a rank.
pub(crate) fn seat(bytes: &[u8]) {
    canonical(bytes, decode, |&seat: &Seat| encode(seat));
}

pub(crate) fn seats() -> Vec<Vec<u8>> {
    [(None, 0), (Some(7), -1)].map(encode).to_vec()
}
