//! What fuzzing asks of what ranks tell each other of buffers. See `crate::fuzzing`.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use allfold_kernels::protocol::abi::ROW_WORDS;

use super::allocation::{Allocation, IPC_BYTES, Shared, Told};
use super::{Reach, Recorded, Sharing, Span};
use crate::error::{Error, Result};
use crate::fuzzing::{Scripted, canonical, script};
use crate::members::Members;
use crate::processes::Meeting;

/// This rank's own buffer.
const OWN: Span = Span { address: 1 << 20, bytes: 64 };
/// Where all that others offer is mapped.
const MAPPED: u64 = 1 << 40;

/// A backend that maps nothing.
struct Nowhere;

impl Sharing for Nowhere {
    type Mapping = ();

    fn export(&self, _rank: u32, span: Span) -> Result<(Allocation, Vec<OwnedFd>)> {
        Ok((Allocation { span, id: 1, shared: Shared::Ipc([0; IPC_BYTES]) }, Vec::new()))
    }

    fn open(&self, _: &Allocation, _: &[OwnedFd]) -> Result<(u64, ())> {
        Ok((MAPPED, ()))
    }

    fn adopt(&self, _rank: u32, _span: Span) -> Result<()> {
        Ok(())
    }

    fn id(&self, _span: Span) -> Result<Option<u64>> {
        Ok(None)
    }

    fn write_row(&self, _row: u32, words: &[u64; ROW_WORDS]) -> Result<()> {
        let there = words.iter().filter(|&&word| word != 0);
        there.for_each(|&word| assert!(word == OWN.address || word >= MAPPED));
        Ok(())
    }
}

/// What a rank tells of its buffers by itself; a registration, and a capture that is finished, in which the others say this.
pub(crate) fn reached(bytes: &[u8]) {
    canonical(bytes, Told::decode, Told::encode);
    if let Some(told) = Told::decode(bytes) {
        for &(index, offset, bytes) in &told.buffers {
            let whole = told.allocations[index as usize].span;
            assert!(offset + bytes <= whole.bytes && whole.address + whole.bytes >= whole.address);
        }
        let room = told.allocations.len() * size_of::<Allocation>() + told.buffers.len() * size_of::<(u32, u64, u64)>();
        assert!(room <= 4 * bytes.len(), "{room} bytes of what {} told", bytes.len());
    }

    let members = Members::one(0, Scripted::WORLD);
    let ranks = Scripted::new(bytes);
    let meeting = Meeting::new(&ranks, Duration::from_millis(100)).expect("a rank of the world");
    let mut reach = Reach::new(Nowhere, members, 4);
    if let Ok(name) = reach.register(Some(&meeting), Ok(&[OWN])) {
        let addresses = reach.addresses(name, [OWN].into_iter()).expect("it was registered");
        assert_eq!(addresses[0], OWN.address);
        let others = &addresses[1..Scripted::WORLD as usize];
        assert!(others.iter().all(|&address| address >= MAPPED && address.checked_add(OWN.bytes).is_some()));
    }

    let ranks = Scripted::new(bytes);
    let meeting = Meeting::new(&ranks, Duration::from_millis(100)).expect("a rank of the world");
    let lease = Arc::new(reach.lease());
    for buffers in [Some([OWN, OWN]), None] {
        reach.note(Recorded { what: "a call".to_owned(), buffers }, &lease).expect("there is room");
    }
    let finished = reach.finish_capture(&meeting, None);
    assert!(!matches!(finished, Err(Error::RankCount { .. } | Error::NotRegistered)), "{finished:?}");
    assert_eq!(reach.pending(), 0);
}

/// Of a rank that tells of buffers: for one registration, and for a capture.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let allocation = |shared| Allocation { span: Span { address: 4096, bytes: 8192 }, id: 7, shared };
    let ipc = || allocation(Shared::Ipc([9; IPC_BYTES]));
    let of = |allocations, buffers| Told { process: [3; 16], allocations, buffers }.encode();
    let one = of(vec![ipc()], vec![(0, 16, OWN.bytes)]);
    let pieces = of(vec![allocation(Shared::Pieces(vec![4096, 4096]))], vec![(0, 16, OWN.bytes)]);
    let not = of(vec![allocation(Shared::Not("why".into()))], vec![(0, 16, OWN.bytes)]);
    let both = of(vec![ipc()], vec![(0, 16, OWN.bytes), (0, 64, OWN.bytes)]);
    let other = of(vec![ipc()], vec![(0, 16, OWN.bytes + 1)]);
    let long = |word: &[u8]| [&[0][..], &(word.len() as u64).to_le_bytes(), word].concat();
    let steps = |word: &[u8]| script(&[long(word), vec![0], vec![0]]);
    let call = [&[1][..], &crate::hash::fnv1a(b"a call").to_le_bytes()].concat().repeat(2);
    let captured = script(&[long(&call), long(&both), vec![0], vec![0], vec![0]]);
    let differs = script(&[long(&[1; 18]), b"\0another call".to_vec()]);
    let mut seeds = vec![captured, differs];
    seeds.extend([&one, &pieces, &not, &other].map(|word| steps(word)));
    seeds.extend([one, pieces, not, both]);
    seeds
}

/// What was found: an offset that is inside what the other told, and beyond what any process can have.
#[cfg(test)]
#[test]
fn a_buffer_that_no_process_has_room_for_is_refused() {
    let span = Span { address: 0, bytes: u64::MAX };
    let allocations = vec![Allocation { span, id: 7, shared: Shared::Ipc([9; IPC_BYTES]) }];
    let told = Told { process: [3; 16], allocations, buffers: vec![(0, u64::MAX - OWN.bytes, OWN.bytes)] }.encode();
    let told = [&[0][..], &(told.len() as u64).to_le_bytes(), &told].concat();
    let script = script(&[told, vec![0], vec![0]]);
    let ranks = Scripted::new(&script);
    let meeting = Meeting::new(&ranks, Duration::from_secs(60)).expect("a rank of the world");
    let mut reach = Reach::new(Nowhere, Members::one(0, Scripted::WORLD), 0);
    let error = reach.register(Some(&meeting), Ok(&[OWN])).expect_err("it is nowhere");
    assert!(matches!(error, Error::RankFailed { rank: 1, .. }), "{error}");
}
