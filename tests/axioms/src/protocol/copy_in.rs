//! The start barrier when the kernel itself copies the input to where peers read it.

use super::{ORDERS, PUBLISHES, RELEASE_ACQUIRE, Section, VOLATILE, at};
use crate::case::Case;
use crate::program::Thread;
use crate::verdict::{Outcome, Verdict};

use Verdict::{Forbidden, Race};

/// Block 1 copies; block 0, thread 0, announces for the rank.
fn multi_gpu(form: super::Form) -> [Thread; 4] {
    [
        at(0, 1, 1, 1).write("staging of 0", 1),
        at(0, 1, 0, 0).announce(form.1, "start 0>1", 1),
        at(1, 1, 1, 0).wait_for(form.2, "start 0>1", 1).bar(),
        at(1, 1, 1, 1).bar().read("r", "staging of 0"),
    ]
}

/// The block that copies is the one that announces.
fn block(form: super::Form, sync_before: bool) -> [Thread; 4] {
    let sync = |thread: Thread| if sync_before { thread.bar() } else { thread };
    [
        sync(at(0, 1, 1, 1).write("staging of 0", 1)),
        sync(at(0, 1, 1, 0)).announce(form.1, "start 0>1 of block 1", 1),
        at(1, 1, 1, 0).wait_for(form.2, "start 0>1 of block 1", 1).bar(),
        at(1, 1, 1, 1).bar().read("r", "staging of 0"),
    ]
}

pub(super) fn section() -> Section {
    let case = |form: String, threads: [Thread; 4], expected| {
        Case::new("Copied by the kernel", form, threads, Outcome::of([("r", 0)]), expected)
    };
    let (sound, volatile) = (RELEASE_ACQUIRE, VOLATILE);
    Section {
        title: "Start barrier, input copied by the kernel",
        asks: "Block 1 of rank 0 copies a chunk to its staging buffer; block 1 of rank 1 waits for rank 0 and reads that chunk. \
               Asked: it reads what was there before.",
        cases: vec![
            case(format!("block barrier, block sync before it, {}", sound.0), block(sound, true), Forbidden)
                .mutated(&[]),
            case(format!("block barrier, no block sync before it, {}", sound.0), block(sound, false), Race),
            case(format!("block barrier, block sync before it, {}", volatile.0), block(volatile, true), Race),
            case(format!("block barrier, block sync before it, {}", volatile.0), block(volatile, true), Race)
                .assuming(&[PUBLISHES, ORDERS]),
            case(format!("block barrier, no block sync before it, {}", volatile.0), block(volatile, false), Race),
            case(format!("multi-GPU barrier, {}", sound.0), multi_gpu(sound), Race),
            case(format!("multi-GPU barrier, {}", volatile.0), multi_gpu(volatile), Race),
            case(format!("multi-GPU barrier, {}", volatile.0), multi_gpu(volatile), Race)
                .assuming(&[PUBLISHES, ORDERS]),
        ],
        answer: "Only the block barrier with release / acquire and a block sync before it. No order of the multi-GPU barrier's \
                 flags helps: block 0 knows nothing of block 1's copy. No kernel ends in between, so no assumption about \
                 kernel ends helps either.",
    }
}
