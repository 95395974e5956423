//! What a rank tells the others of the allocations that its buffers lie in.

use std::sync::OnceLock;

use super::Span;
use crate::error::{Error, Result};
use crate::rendezvous::{Reader, Writer};

/// Bytes of a handle of `cuIpc`.
pub(crate) const IPC_BYTES: usize = 64;

/// An allocation, as its own process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Allocation {
    /// Where it lies.
    pub(crate) span: Span,
    /// What tells it from one that was at the same place before.
    pub(crate) id: u64,
    /// How other processes come to it.
    pub(crate) shared: Shared,
}

/// How other processes map an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shared {
    /// Not at all, and what to do.
    Not(String),
    /// By a descriptor for each of its pieces, which lie one behind another and have so many bytes.
    Pieces(Vec<u64>),
    /// By a handle of `cuIpc`.
    Ipc([u8; IPC_BYTES]),
}

impl Allocation {
    /// Descriptors that go with it.
    pub(crate) fn descriptors(&self) -> usize {
        match &self.shared {
            Shared::Pieces(pieces) => pieces.len(),
            Shared::Not(_) | Shared::Ipc(_) => 0,
        }
    }
}

/// What a rank tells of its buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// Its process: the same for ranks that are threads of one.
    pub(super) process: [u8; 16],
    /// The allocations that they lie in.
    pub(super) allocations: Vec<Allocation>,
    /// Each buffer: in which of them, how far from its start, and how long.
    pub(super) buffers: Vec<(u32, u64, u64)>,
}

impl Told {
    pub(super) fn encode(&self) -> Vec<u8> {
        let to = Writer::default().bytes(&self.process).u32(self.allocations.len() as u32);
        let to = self.allocations.iter().fold(to, |to, allocation| {
            let to = to.u64(allocation.span.address).u64(allocation.span.bytes).u64(allocation.id);
            match &allocation.shared {
                Shared::Not(why) => to.u8(0).text(why),
                Shared::Pieces(pieces) => {
                    pieces.iter().fold(to.u8(1).u32(pieces.len() as u32), |to, &bytes| to.u64(bytes))
                }
                Shared::Ipc(handle) => to.u8(2).bytes(handle),
            }
        });
        let to = to.u32(self.buffers.len() as u32);
        self.buffers.iter().fold(to, |to, &(index, offset, bytes)| to.u32(index).u64(offset).u64(bytes)).0
    }

    /// `None`: this is not how a rank of this version tells it.
    pub(super) fn decode(word: &[u8]) -> Option<Told> {
        let mut from = Reader(word);
        let process = from.array()?;
        // Nothing is set aside for what has not been read yet.
        let allocations = (0..from.u32()?).map(|_| allocation(&mut from)).collect::<Option<Vec<_>>>()?;
        let buffers = (0..from.u32()?).map(|_| {
            let (index, offset, bytes) = (from.u32()?, from.u64()?, from.u64()?);
            let whole = allocations.get(index as usize)?.span;
            let address = whole.address.checked_add(offset)?;
            whole.offset_of(Span { address, bytes })?;
            Some((index, offset, bytes))
        });
        let buffers = buffers.collect::<Option<Vec<_>>>()?;
        from.end(Told { process, allocations, buffers })
    }
}

fn allocation(from: &mut Reader<'_>) -> Option<Allocation> {
    let span = Span { address: from.u64()?, bytes: from.u64()? };
    span.address.checked_add(span.bytes)?;
    let id = from.u64()?;
    let shared = match from.u8()? {
        0 => Shared::Not(from.text()?),
        1 => {
            let pieces = (0..from.u32()?).map(|_| from.u64()).collect::<Option<Vec<_>>>()?;
            // A buffer inside the allocation lies inside what is mapped.
            let all = pieces.iter().try_fold(0_u64, |sum, &bytes| sum.checked_add(bytes))?;
            (all == span.bytes).then_some(Shared::Pieces(pieces))?
        }
        2 => Shared::Ipc(from.array()?),
        _ => return None,
    };
    Some(Allocation { span, id, shared })
}

/// A number that no other process has: a random one, and the process's own, which a child does not share.
pub(super) fn process() -> Result<[u8; 16]> {
    static RANDOM: OnceLock<[u8; 12]> = OnceLock::new();
    let random = match RANDOM.get() {
        Some(random) => *random,
        None => {
            let mut random = [0; 12];
            let failed = |error: getrandom::Error| Error::Host {
                what: "reading a random number",
                source: std::io::Error::other(error),
            };
            getrandom::fill(&mut random).map_err(failed)?;
            *RANDOM.get_or_init(|| random)
        }
    };
    let mut process = [0; 16];
    process[..12].copy_from_slice(&random);
    process[12..].copy_from_slice(&std::process::id().to_le_bytes());
    Ok(process)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told() -> Told {
        let allocation = |shared| Allocation { span: Span { address: 4096, bytes: 8192 }, id: 7, shared };
        Told {
            process: [3; 16],
            allocations: vec![
                allocation(Shared::Not("why".into())),
                allocation(Shared::Pieces(vec![4096, 4096])),
                allocation(Shared::Ipc([9; IPC_BYTES])),
            ],
            buffers: vec![(2, 0, 8192), (0, 16, 4), (1, 8192, 0)],
        }
    }

    #[test]
    fn what_is_told_is_heard_and_nothing_shorter_or_longer_is() {
        let (told, word) = (told(), told().encode());
        assert_eq!(Told::decode(&word), Some(told));
        assert!((0..word.len()).all(|end| Told::decode(&word[..end]).is_none()));
        assert_eq!(Told::decode(&[&word[..], &[0]].concat()), None);
    }

    #[test]
    fn pieces_that_are_not_the_allocation_are_refused() {
        for (bytes, pieces) in [(8192, vec![4096]), (8192, vec![]), (0, vec![1]), (1, vec![u64::MAX, 2])] {
            let span = Span { address: 4096, bytes };
            let allocation = Allocation { span, id: 7, shared: Shared::Pieces(pieces) };
            let told = Told { allocations: vec![allocation], buffers: Vec::new(), ..told() };
            assert_eq!(Told::decode(&told.encode()), None, "{told:?}");
        }
        let allocation =
            Allocation { span: Span { address: u64::MAX, bytes: 2 }, id: 7, shared: Shared::Ipc([9; IPC_BYTES]) };
        let told = Told { allocations: vec![allocation], buffers: Vec::new(), ..told() };
        assert_eq!(Told::decode(&told.encode()), None);
    }

    #[test]
    fn a_buffer_outside_its_allocation_is_refused() {
        for buffer in [(3, 0, 1), (0, 0, 8193), (0, 8192, 1), (0, u64::MAX, 1), (0, 1, u64::MAX)] {
            let told = Told { buffers: vec![buffer], ..told() };
            assert_eq!(Told::decode(&told.encode()), None, "{buffer:?}");
        }
    }
}
