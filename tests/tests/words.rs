//! Words that ranks leave for each other and for the host: each is read as it was written, and none for another.

use std::collections::HashSet;

use allfold::{Algorithm, Dtype, Epoch, InputMode, MAX_RANKS, Phase, Rank, Ranks, ReduceOp, Stop, Why};
use allfold_kernels::protocol::signature::{Call, Collective, Signature, untold};

#[test]
fn why_ranks_stopped_is_read_as_it_was_written() {
    let mut seen = HashSet::new();
    let whys = [Why::TimedOut, Why::Gone, Why::Differs, Why::UnknownBuffers, Why::Aborted, Why::Abandoned];
    for (why, phase) in whys.into_iter().flat_map(|why| Phase::BARRIERS.map(|phase| (why, phase))) {
        for (by, ranks) in
            (0..MAX_RANKS as u32).flat_map(|by| [0, 1, 2, 0x80, 0xff].map(|ranks| (Rank(by), Ranks(ranks))))
        {
            for (block, epoch_low) in
                [0, 1, 255].into_iter().flat_map(|block| [0, 1, (1 << 40) - 1].map(|low| (block, low)))
            {
                let stop = Stop { why, by, phase, block, ranks, epoch_low };
                let word = stop.encode();
                assert!(word != 0 && seen.insert(word), "{stop:?}");
                assert_eq!(Stop::decode(word), Some(stop));
            }
        }
    }
    // Of a longer number the low bits are kept, and no other field is touched.
    let stop = Stop { epoch_low: u64::MAX, phase: Phase::Landing, ..Stop::outside(Why::Aborted, Rank(7)) };
    assert_eq!(Stop::decode(stop.encode()), Some(Stop { epoch_low: (1 << 40) - 1, ..stop }));
    for word in [0, 1, (1 << 40) - 1, 1 << 60, 7 << 61, u64::MAX] {
        assert_eq!(Stop::decode(word), None, "{word:#x}");
    }
}

#[test]
fn sets_of_ranks_are_read_from_bytes_and_listed_in_order() {
    for set in 0..=u8::MAX {
        let bytes: [u8; 8] = std::array::from_fn(|rank| set >> rank & 1);
        let ranks = Ranks::of_bytes(u64::from_le_bytes(bytes));
        assert_eq!(ranks, Ranks(set));
        let listed: Vec<_> = ranks.iter().collect();
        assert!(listed.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(listed.into_iter().fold(0, |all, rank| all | Ranks::of(rank).0), set);
    }
}

#[test]
fn what_ranks_tell_of_a_call_is_read_as_it_was_written_and_none_of_another_call() {
    let mut seen = HashSet::new();
    let grids = [(1, 1), (256, 1024), (255, 32)];
    let dtypes = Dtype::ALL.into_iter().flat_map(|dtype| ReduceOp::ALL.map(|op| (dtype, op)));
    for ((dtype, op), algorithm) in dtypes.flat_map(|of| Algorithm::ALL.map(|algorithm| (of, algorithm))) {
        for (input, (blocks, threads)) in InputMode::ALL.into_iter().flat_map(|input| grids.map(|grid| (input, grid))) {
            for (elems, protocol) in [(1, 0), (1, 0x1ff), ((1 << 48) - 1, 1)] {
                let collective = Collective::AllReduce;
                let call = Call { collective, elems, dtype, op, algorithm, input, blocks, threads, protocol };
                let signature = call.signature();
                assert!(seen.insert(signature.0), "{call:?}");
                assert_eq!(Call::of(signature), Some(call));
                assert_ne!(signature, Signature::NONE);
            }
        }
    }
    for last in [0, 0xfffe, 0xffff, u32::MAX.into(), u64::MAX >> 2] {
        let words = [untold(last); 2];
        for later in 1..4 {
            assert_eq!(Signature::heard(words, Epoch(last + later)), None, "call {later} after {last}");
        }
    }
    // One word of this call and one of the last that was told in the same bank.
    let mixed = [7 | 9 << 48, 7 | 7 << 48];
    assert_eq!(Signature::heard(mixed, Epoch(9)), None);
    assert_eq!(Signature::heard([mixed[0]; 2], Epoch(9)), Some(Signature([7; 2])));
}
