//! A [`RendezvousError`] in bytes: how rank 0 tells the others why the group has ended.

use super::bytes::{Reader, Writer};
use super::call::Call;
use super::{MAX_WORLD, RendezvousError};

/// Most bytes that a failure takes.
pub(super) const MOST_FAILURE_BYTES: usize = 1024;

/// What a [`RendezvousError::Host`] of rank 0 says it was doing, when it is told to others.
pub(super) const SERVING: &str = "serving the other ranks as rank 0";

/// The failure in bytes. What never leaves its process says here that rank 0, which tells it, is gone.
pub(super) fn encode(error: &RendezvousError) -> Vec<u8> {
    use RendezvousError as E;
    let to = Writer::default();
    let written = match error {
        E::Missing { missing } => {
            let missing = &missing[..missing.len().min(MAX_WORLD as usize)];
            missing.iter().fold(to.u8(1).u8(missing.len() as u8), |to, rank| to.u32(*rank))
        }
        E::Gone { rank } => to.u8(2).u32(*rank),
        E::NoSuchRank { rank, world } => to.u8(3).u32(*rank).u32(*world),
        E::World { rank, theirs, ours } => to.u8(4).u32(*rank).u32(*theirs).u32(*ours),
        E::Version { rank, theirs, ours } => to.u8(5).u32(*rank).text(theirs).text(ours),
        E::Protocol { rank, theirs, ours } => to.u8(6).u32(*rank).u32(*theirs).u32(*ours),
        E::Twice { rank } => to.u8(7).u32(*rank),
        E::DifferentCalls { sequence, rank, call, other_rank, other_call } => {
            to.u8(8).u64(*sequence).u32(*rank).u8(call.code()).u32(*other_rank).u8(other_call.code())
        }
        E::OutOfStep { rank, sequence, expected } => to.u8(9).u32(*rank).u64(*sequence).u64(*expected),
        E::TooLong { rank, bytes, most_bytes } => to.u8(10).u32(*rank).u64(*bytes).u64(*most_bytes),
        E::Garbled { rank } => to.u8(11).u32(*rank),
        E::Host { what, why } => {
            let why = if *what == SERVING { why.clone() } else { format!("{what}: {why}") };
            to.u8(12).text(&why)
        }
        E::Unreachable { .. }
        | E::NotAllfold { .. }
        | E::InUse { .. }
        | E::Listen { .. }
        | E::Secret { .. }
        | E::WorldSize { .. }
        | E::Environment(_) => to.u8(2).u32(0),
    };
    written.0
}

/// The failure of these bytes; `None`: they are not one.
pub(super) fn decode(bytes: &[u8]) -> Option<RendezvousError> {
    use RendezvousError as E;
    let mut from = Reader(bytes);
    let error = match from.u8()? {
        1 => {
            let count = u32::from(from.u8()?);
            if count > MAX_WORLD {
                return None;
            }
            E::Missing { missing: (0..count).map(|_| from.u32()).collect::<Option<_>>()? }
        }
        2 => E::Gone { rank: from.u32()? },
        3 => E::NoSuchRank { rank: from.u32()?, world: from.u32()? },
        4 => E::World { rank: from.u32()?, theirs: from.u32()?, ours: from.u32()? },
        5 => E::Version { rank: from.u32()?, theirs: from.text()?, ours: from.text()? },
        6 => E::Protocol { rank: from.u32()?, theirs: from.u32()?, ours: from.u32()? },
        7 => E::Twice { rank: from.u32()? },
        8 => E::DifferentCalls {
            sequence: from.u64()?,
            rank: from.u32()?,
            call: Call::of_code(from.u8()?)?,
            other_rank: from.u32()?,
            other_call: Call::of_code(from.u8()?)?,
        },
        9 => E::OutOfStep { rank: from.u32()?, sequence: from.u64()?, expected: from.u64()? },
        10 => E::TooLong { rank: from.u32()?, bytes: from.u64()?, most_bytes: from.u64()? },
        11 => E::Garbled { rank: from.u32()? },
        12 => E::Host { what: SERVING, why: from.text()? },
        _ => return None,
    };
    from.end(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_arrives() {
        use RendezvousError as E;
        let (rank, theirs, ours) = (3, 5, 4);
        let (call, other_call) = (Call::Barrier, Call::AllGather);
        for error in [
            E::Missing { missing: vec![0, 2, 7] },
            E::Missing { missing: Vec::new() },
            E::Gone { rank },
            E::NoSuchRank { rank, world: 2 },
            E::World { rank, theirs, ours },
            E::Version { rank, theirs: "1.2.3-rc.1".into(), ours: "0.1.0".into() },
            E::Protocol { rank, theirs, ours },
            E::Twice { rank },
            E::DifferentCalls { sequence: 1 << 40, rank, call, other_rank: 1, other_call },
            E::OutOfStep { rank, sequence: 9, expected: u64::MAX },
            E::TooLong { rank, bytes: 1 << 50, most_bytes: 1 << 20 },
            E::Garbled { rank },
            E::Host { what: SERVING, why: "starting a thread: none left".into() },
        ] {
            let bytes = encode(&error);
            assert!(bytes.len() <= MOST_FAILURE_BYTES);
            assert_eq!(decode(&bytes), Some(error));
            assert!((0..bytes.len()).all(|end| decode(&bytes[..end]).is_none()), "{bytes:?}");
            assert_eq!(decode(&[&bytes[..], &[0]].concat()), None);
        }
        let host = E::Host { what: "a thread", why: "none left".into() };
        assert_eq!(decode(&encode(&host)), Some(E::Host { what: SERVING, why: "a thread: none left".into() }));
        let unseen = E::InUse { address: "here".into() };
        assert_eq!(decode(&encode(&unseen)), Some(E::Gone { rank: 0 }));
    }

    #[test]
    fn a_long_text_is_cut_between_letters() {
        let error = RendezvousError::Version { rank: 1, theirs: "ä".repeat(400), ours: "0".repeat(400) };
        let Some(RendezvousError::Version { theirs, ours, .. }) = decode(&encode(&error)) else { panic!("not read") };
        assert_eq!((theirs, ours), ("ä".repeat(127), "0".repeat(255)));
    }
}
