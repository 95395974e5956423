//! Cheaper ways to release and to acquire: relaxed polls with one acquire after them, one fence for many flags.

use super::{Announce, Await, RELEASE_ACQUIRE, SYS, Section, at};
use crate::case::Case;
use crate::event::{FenceKind, Order};
use crate::program::Thread;
use crate::verdict::{Outcome, Verdict};

use FenceKind::AcqRel;
use Order::{Acquire, Relaxed, Release, Volatile};
use Verdict::{Forbidden, Race};

/// The middle barrier's core, with any steps of the two threads around the flag.
fn threads(sender: [fn(Thread) -> Thread; 2], receiver: [fn(Thread) -> Thread; 2]) -> [Thread; 4] {
    [
        sender[1](at(0, 1, 0, 1).write("data", 1)),
        sender[0](at(0, 1, 0, 0)),
        receiver[0](at(1, 1, 0, 0)),
        receiver[1](at(1, 1, 0, 1)).read("r", "data"),
    ]
}

fn release(thread: Thread) -> Thread {
    thread.bar().announce(RELEASE_ACQUIRE.1, "flag", 1)
}

fn acquire(thread: Thread) -> Thread {
    thread.wait_for(RELEASE_ACQUIRE.2, "flag", 1).bar()
}

fn relaxed(thread: Thread) -> Thread {
    thread.wait_for(Await::As(Relaxed(SYS)), "flag", 1)
}

fn fence(thread: Thread) -> Thread {
    thread.fence(AcqRel, SYS)
}

fn sc(thread: Thread) -> Thread {
    thread.fence(FenceKind::Sc, SYS)
}

fn bar(thread: Thread) -> Thread {
    thread.bar()
}

/// One acquire after a relaxed poll, and one fence before a relaxed store.
pub(super) fn section() -> Section {
    let case = |form, sender, receiver, expected| {
        Case::new("Cheaper forms", form, threads(sender, receiver), Outcome::of([("r", 0)]), expected)
    };
    type Steps = [fn(Thread) -> Thread; 2];
    let (releases, acquires): (Steps, Steps) = ([release, bar], [acquire, bar]);
    let again = |t: Thread| t.wait_for(Await::RelaxedThenAcquire, "flag", 1).bar();
    let fenced = |t: Thread| t.wait_for(Await::ThenFence(Relaxed(SYS)), "flag", 1).bar();
    let volatile = |t: Thread| t.wait_for(Await::ThenFence(Volatile), "flag", 1).bar();
    let fence_store = |t: Thread| t.bar().announce(Announce::FenceThenRelaxed, "flag", 1);
    let early_fence = |t: Thread| t.fence(AcqRel, SYS).bar().announce(Announce::As(Relaxed(SYS)), "flag", 1);
    let early_sc = |t: Thread| sc(t).bar().announce(Announce::As(Relaxed(SYS)), "flag", 1);
    Section {
        title: "Cheaper ways to announce and to wait",
        asks: "The middle barrier's core. A fence stands where its thread stands: \"after the sync\" is after the thread's \
               bar.sync. Asked: the reader finds what was there before.",
        cases: vec![
            case("release / poll relaxed, then one ld.acquire", releases, [again, bar], Forbidden).mutated(&[]),
            case("release / poll relaxed, then fence.acq_rel", releases, [fenced, bar], Forbidden).mutated(&[]),
            case("release / poll volatile, then fence.acq_rel", releases, [volatile, bar], Forbidden).mutated(&[]),
            case(
                "release / poll relaxed, fence by the reader after the sync",
                releases,
                [|t| bar(relaxed(t)), |t| fence(bar(t))],
                Race,
            ),
            case(
                "release / poll relaxed, fence by the poller after the sync",
                releases,
                [|t| fence(bar(relaxed(t))), bar],
                Race,
            ),
            case(
                "release / poll relaxed, sync, fence by the poller, sync",
                releases,
                [|t| bar(fence(bar(relaxed(t)))), |t| bar(bar(t))],
                Forbidden,
            ),
            case("sync, fence.acq_rel, relaxed store / acquire", [fence_store, bar], acquires, Forbidden).mutated(&[]),
            case(
                "fence by every thread, sync, relaxed store / acquire",
                [early_fence, |t| bar(fence(t))],
                acquires,
                Race,
            ),
            case(
                "fence by the writer, sync, relaxed store / acquire",
                [|t| bar(t).announce(Announce::As(Relaxed(SYS)), "flag", 1), |t| bar(fence(t))],
                acquires,
                Race,
            ),
            case("fence.sc by every thread, sync, relaxed store / acquire", [early_sc, |t| bar(sc(t))], acquires, Race),
            case(
                "fence.sc by every thread, sync, relaxed store / poll relaxed, then fence.sc",
                [early_sc, |t| bar(sc(t))],
                [|t| bar(sc(relaxed(t))), bar],
                Forbidden,
            ),
        ],
        answer: "Yes: polling with `ld.relaxed.sys` and one `ld.acquire.sys` of the same flag once it has come is sound, and so \
                 is one `fence.acq_rel.sys` in its place. The acquire must be done by the thread that polled, before the \
                 block sync. In the same way the release fence must be in the thread that stores the flag, after the sync. The \
                 old habit of a fence in every thread, then a sync, then a relaxed or volatile store by one of them, is not a \
                 release pattern; it is sound only with the dearest fences, fence.sc there and in the thread that polled.",
    }
}

/// Several peers, polled or told by one thread.
pub(super) fn many() -> Section {
    let peers = |wait: &dyn Fn(Thread) -> Thread| {
        [
            at(0, 1, 0, 0).write("data of 0", 1).announce(RELEASE_ACQUIRE.1, "flag 0>2", 1),
            at(1, 1, 0, 0).write("data of 1", 1).announce(RELEASE_ACQUIRE.1, "flag 1>2", 1),
            wait(at(2, 1, 0, 0)).read("r0", "data of 0").read("r1", "data of 1"),
        ]
    };
    let told = |tell: fn(Thread) -> Thread| {
        [
            tell(at(0, 1, 0, 0).write("data of 0", 1)),
            at(1, 1, 0, 0).wait_for(RELEASE_ACQUIRE.2, "flag 0>1", 1).read("r1", "data of 0"),
            at(2, 1, 0, 0).wait_for(RELEASE_ACQUIRE.2, "flag 0>2", 1).read("r0", "data of 0"),
        ]
    };
    let case = |form: &str, threads: [Thread; 3], reg, expected| {
        Case::new("Many flags", form, threads, Outcome::of([(reg, 0)]), expected)
    };
    let polled: fn(Thread) -> Thread = |t| {
        let relaxed = Await::As(Relaxed(SYS));
        t.wait_for(relaxed, "flag 0>2", 1).wait_for(relaxed, "flag 1>2", 1)
    };
    let one_fence: fn(Thread) -> Thread =
        |t| t.fence(AcqRel, SYS).st(Relaxed(SYS), "flag 0>1", 1).st(Relaxed(SYS), "flag 0>2", 1);
    let one_release: fn(Thread) -> Thread = |t| t.st(Release(SYS), "flag 0>1", 1).st(Relaxed(SYS), "flag 0>2", 1);
    Section {
        title: "One thread, several peers",
        asks: "Rank 2 waits for ranks 0 and 1 in one thread, or rank 0 tells ranks 1 and 2 in one thread. Asked: rank 2 reads what was \
               there before on rank 0 (r0), or on rank 1 (r1).",
        cases: vec![
            case("polls of two flags relaxed, one fence.acq_rel", peers(&|t| fence(polled(t))), "r0", Forbidden)
                .mutated(&SECOND_PEER),
            case("polls of two flags relaxed, one fence.acq_rel", peers(&|t| fence(polled(t))), "r1", Forbidden)
                .mutated(&FIRST_PEER),
            case(
                "polls of two flags relaxed, one ld.acquire of the second",
                peers(&|t| polled(t).ld(Acquire(SYS), "again", "flag 1>2")),
                "r1",
                Forbidden,
            ),
            case(
                "polls of two flags relaxed, one ld.acquire of the second",
                peers(&|t| polled(t).ld(Acquire(SYS), "again", "flag 1>2")),
                "r0",
                Race,
            ),
            case("polls of two flags relaxed, nothing after", peers(&polled), "r0", Race),
            case("one fence.acq_rel, relaxed stores of two flags", told(one_fence), "r0", Forbidden),
            case("release store of the first flag, relaxed store of the second", told(one_release), "r0", Race),
        ],
        answer: "One fence serves all flags that its thread polled, or will store. An acquire load serves its own flag only, and so \
                 does a release store.",
    }
}

const SECOND_PEER: [(&str, &str); 1] = [("flag 1>2", "the data asked for are rank 0's")];
const FIRST_PEER: [(&str, &str); 1] = [("flag 0>2", "the data asked for are rank 1's")];
