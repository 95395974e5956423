//! Pushes, thread by thread: what goes to whom and where, what is cleared, and what a rank does whose peer does not come.

mod lone;

use std::collections::BTreeSet;

use allfold::{Algorithm, Phase, Rank, Ranks, Stop, Why};
use allfold_kernels::protocol::abi::{Bank, FlagRow, GENERATIONS, Generation, MARKER, MAX_BLOCKS};
use allfold_kernels::protocol::element::{Bf16, Element, F16, F32, I32};
use allfold_kernels::protocol::epoch::Epoch;
use allfold_kernels::protocol::machine::{Landing, Region};
use allfold_kernels::protocol::one_shot_push::one_shot_push;
use allfold_kernels::protocol::push::Cursor;
use allfold_kernels::protocol::share::{packs, part_packs};
use allfold_kernels::protocol::two_shot_push::two_shot_push;
use lone::Lone;

const PUSHES: [Algorithm; 2] = [Algorithm::OneShotPush, Algorithm::TwoShotPush];

fn run<T: Element>(algorithm: Algorithm, m: &Lone) {
    macro_rules! worlds {
        ($($W:literal)*) => {
            match (algorithm, m.world) {
                $(
                    (Algorithm::OneShotPush, $W) => one_shot_push::<_, T, $W>(m),
                    (Algorithm::TwoShotPush, $W) => two_shot_push::<_, T, $W>(m),
                )*
                _ => panic!("{algorithm:?}, {} ranks", m.world),
            }
        };
    }
    worlds!(2 3 4 5 6 7 8);
}

/// The row of the flags that announce the generation of `serial`.
fn row(serial: u64) -> FlagRow {
    FlagRow { phase: Phase::Landing, bank: Bank((serial % 2) as u32), block: 0 }
}

/// A thread in the call after `last` and its cursor, all of whose peers have announced the generation of that.
fn thread_after<T: Element>(world: u32, elems: u64, last: u64, cursor: Cursor) -> Lone {
    let mut m = Lone::new(world, elems, T::DTYPE.lanes() as u64, Epoch(last));
    m.flags.extend((0..world).map(|peer| ((row(cursor.serial), Rank(peer)), Epoch(cursor.serial))));
    m.cursors.borrow_mut().fill(cursor);
    m.landed = |_, _| true;
    m
}

/// The same, where the last call has just begun the generation of its own number and left room in it.
fn thread<T: Element>(world: u32, elems: u64, last: u64) -> Lone {
    let mut m = thread_after::<T>(world, elems, last, Cursor { serial: last, used: USED, announced: true });
    m.shared_packs = u32::MAX / 2;
    m
}

/// Packs of a slot that calls before have used.
const USED: u32 = 5;

/// What all threads of all ranks did in one call.
#[derive(Default)]
struct Done {
    /// Emitter, listener and pack of a slot.
    pushed: BTreeSet<(Rank, Rank, u64)>,
    cleared: BTreeSet<(Rank, Rank, u64)>,
    /// Rank and element.
    stored: BTreeSet<(u32, u64)>,
}

fn call<T: Element>(algorithm: Algorithm, world: u32, elems: u64, grid: (u32, u32), last: u64, aligned: bool) -> Done {
    let mut done = Done::default();
    let generation = Generation((last % GENERATIONS as u64) as u32);
    for rank in 0..world {
        for (block, thread_of_block) in (0..grid.0).flat_map(|block| (0..grid.1).map(move |thread| (block, thread))) {
            let mut m = thread::<T>(world, elems, last);
            (m.rank, m.block, m.thread, m.blocks, m.threads) = (rank, block, thread_of_block, grid.0, grid.1);
            // What is to be pushed is the marker itself; it must not arrive as such.
            (m.word, m.aligned) = (MARKER, aligned);
            run::<T>(algorithm, &m);
            let pack = |at: &Landing| {
                assert_eq!(at.generation, generation);
                at.pack - USED
            };
            for (listener, at) in m.pushed.borrow().iter() {
                assert!(done.pushed.insert((Rank(rank), *listener, u64::from(pack(at)))), "{at:?} is pushed twice");
            }
            for (emitter, at) in m.cleared.borrow().iter() {
                assert!(done.cleared.insert((*emitter, Rank(rank), u64::from(pack(at)))), "{at:?} is cleared twice");
            }
            for access in m.stores.borrow().iter() {
                assert_eq!((access.region, access.owner), (Region::Output, Rank(rank)));
                for elem in access.elem..access.elem + access.elems {
                    assert!(done.stored.insert((rank, elem)), "element {elem} of {elems} is stored twice");
                }
            }
            assert!(m.given.borrow().is_empty());
            assert!(!m.left(), "{world} ranks, {elems} elements by {grid:?}");
            let moves_data = !(m.pushed.borrow().is_empty() && m.cleared.borrow().is_empty());
            assert!(!moves_data || block > 0 || grid.0 == 1, "block 0 of several moves no data");
        }
    }
    done
}

/// Every element is summed once, every pack goes once to each peer, to a place of its own in the slot, and the listener
/// clears that place, once.
fn landings<T: Element>(algorithm: Algorithm) {
    let lanes = T::DTYPE.lanes() as u64;
    for world in [2, 3, 8] {
        for grid in [(1, 1), (2, 1), (1, 33), (4, 3), (3, 5)] {
            for elems in (0..70).chain([127, 129, 300]) {
                let of = |aligned| call::<T>(algorithm, world, elems, grid, elems, aligned);
                let done = of(true);
                let packs = packs(T::DTYPE, elems);
                assert_eq!(packs, elems.div_ceil(lanes));
                let each = u64::from(T::DTYPE.landing_packs());
                assert_eq!(done.stored.len() as u64, u64::from(world) * elems, "{elems} elements by {grid:?}");
                assert_eq!(done.pushed, done.cleared, "{elems} elements by {grid:?}");
                let peers = u64::from(world) - 1;
                // Each rank pushes the whole to each peer; or to each its part, and to all the sum of its own.
                let (all, slot) = if algorithm == Algorithm::OneShotPush {
                    (u64::from(world) * peers * packs, packs)
                } else {
                    (2 * peers * packs, 2 * part_packs(packs, world))
                };
                assert_eq!(done.pushed.len() as u64, each * all, "{elems} elements of {world} ranks");
                assert!(
                    done.pushed.iter().all(|&(_, _, pack)| pack < each * slot),
                    "{elems} elements of {world} ranks"
                );
                let not = of(false);
                assert!(not.stored == done.stored && not.pushed == done.pushed && not.cleared == done.cleared);
            }
        }
    }
}

#[test]
fn every_pack_lands_once_and_is_cleared_once_in_f32() {
    PUSHES.into_iter().for_each(landings::<F32>);
}

#[test]
fn every_pack_lands_once_and_is_cleared_once_in_16_bits() {
    PUSHES.into_iter().for_each(landings::<F16>);
    PUSHES.into_iter().for_each(landings::<Bf16>);
}

/// All ones as data, which are the marker, land like any other number.
#[test]
fn every_pack_lands_once_and_is_cleared_once_in_i32() {
    PUSHES.into_iter().for_each(landings::<I32>);
}

/// What rank 0 says of a wait for `missing`.
fn late(missing: Rank, block: u32, epoch: Epoch) -> Stop {
    let epoch_low = epoch.0 & ((1 << 40) - 1);
    Stop { why: Why::TimedOut, by: Rank(0), phase: Phase::Landing, block, ranks: Ranks::of(missing), epoch_low }
}

/// What `m` has told all ranks, if it has stopped.
fn stop(m: &Lone) -> Option<Stop> {
    let stops = m.stops.borrow();
    // The own rank last: once its word is there, those to all others are under way.
    let all = (1..=m.world).map(|step| (m.rank + step) % m.world);
    assert!(stops.iter().map(|&(rank, _)| rank.0).eq(all.filter(|_| !stops.is_empty())), "{stops:?}");
    stops.first().map(|&(_, stop)| stop)
}

/// Of rank 0's one thread: pack 2 of the last rank never comes. `Lone` fails where anything but poison is stored after that.
#[test]
fn a_peer_whose_pack_does_not_land_is_named_and_nothing_more_is_touched() {
    for algorithm in PUSHES {
        for world in 2..=8 {
            for last in [0, 6, u64::from(u32::MAX), u64::MAX >> 2] {
                // Three packs of each part or, for a one-shot, in all: the third is a term.
                let packs = if algorithm == Algorithm::OneShotPush { 3 } else { 3 * u64::from(world) };
                let mut m = thread::<F32>(world, 4 * packs, last);
                m.landed = match world {
                    2 => |rank, at| rank != Rank(1) || at.pack != USED + 2,
                    _ => |rank, at| rank != Rank(2) || at.pack != USED + 2,
                };
                let missing = Rank(if world == 2 { 1 } else { 2 });
                run::<F32>(algorithm, &m);
                let wanted = late(missing, 0, Epoch(last).next());
                assert_eq!(stop(&m), Some(wanted), "{algorithm:?} {world} ranks after {last}");
                // All of this thread's elements but nobody else's hold no sum.
                let mut poisoned = m.poisoned.borrow().clone();
                poisoned.sort_unstable();
                assert!(poisoned.into_iter().eq(0..m.elems), "{algorithm:?} {world} ranks after {last}");
                // What came before is summed and cleared, of every peer; nothing of what did not come.
                let cleared: Vec<_> = m.cleared.borrow().iter().map(|(_, at)| at.pack - USED).collect();
                assert_eq!(cleared.len() as u32, 2 * (world - 1));
                assert!(cleared.iter().all(|&pack| pack < 2));
                assert_eq!(m.stores.borrow().iter().map(|access| access.elem).collect::<Vec<_>>(), [0, 4]);
            }
        }
    }
}

/// The sum of a two-shot that does not land: the terms of all have been summed before.
#[test]
fn an_owner_whose_sum_does_not_land_is_named() {
    let mut m = thread::<F32>(3, 4 * 6, 6);
    // Parts of two packs, so sums land at packs 2 and 3.
    m.landed = |rank, at| rank != Rank(2) || at.pack != USED + 3;
    run::<F32>(Algorithm::TwoShotPush, &m);
    assert_eq!(stop(&m), Some(late(Rank(2), 0, Epoch(7))));
    let stored: BTreeSet<_> = m.stores.borrow().iter().map(|access| access.elem / 4).collect();
    assert!(stored.contains(&0) && stored.contains(&1) && !stored.contains(&5), "{stored:?}");
}

/// Packs of a slot that a call of `packs` packs over `world` ranks takes.
fn extent(algorithm: Algorithm, packs: u64, world: u32) -> u32 {
    let extent = if algorithm == Algorithm::OneShotPush { packs } else { 2 * part_packs(packs, world) };
    extent as u32
}

/// Calls lie one behind another in the slots; one that does not fit in what is left begins the next generation, also one that
/// is larger than what calls share.
#[test]
fn calls_fill_a_generation_and_then_begin_the_next() {
    for algorithm in PUSHES {
        for serial in [0, 3, u64::from(u32::MAX)] {
            for packs in [1, 6, 16, 40] {
                let extent = extent(algorithm, packs, 4);
                for used in [0, 1, 16 - extent.min(16), 17 - extent.min(16), 16, 40] {
                    let before = Cursor { serial, used, announced: false };
                    let mut m = thread_after::<F32>(4, 4 * packs, 9, before);
                    m.shared_packs = 16;
                    run::<F32>(algorithm, &m);
                    let fits = used + extent <= 16.max(extent);
                    let serial = if fits { serial } else { serial.wrapping_add(1) };
                    let start = if fits { used } else { 0 };
                    let after = Cursor { serial, used: start + extent, announced: !fits };
                    assert!(m.cursors.borrow().iter().all(|&cursor| cursor == after), "{before:?}, {extent} packs");
                    let generation = Generation((serial % GENERATIONS as u64) as u32);
                    let lies = |at: &Landing| at.generation == generation && (start..start + extent).contains(&at.pack);
                    assert!(m.pushed.borrow().iter().all(|(_, at)| lies(at)), "{before:?}, {extent} packs");
                    assert_eq!(m.told.borrow().is_empty(), fits);
                }
            }
        }
    }
}

/// The first push in a generation is announced, by block 0, to all; the next one waits for that, in block 0, at its end.
#[test]
fn a_new_generation_is_announced_and_the_next_push_waits_for_that() {
    let cases =
        PUSHES.into_iter().flat_map(|algorithm| [0, 1, 6, u64::from(u32::MAX)].map(|serial| (algorithm, serial)));
    for (algorithm, serial) in cases {
        for (block, blocks) in [(0, 1), (0, 2), (1, 2)] {
            for (announced, begins) in [(false, false), (false, true), (true, false), (true, true)] {
                let used = if begins { 100 } else { 0 };
                let of = |missing: Option<Rank>| {
                    let mut m = thread_after::<F32>(4, 64, 9, Cursor { serial, used, announced });
                    (m.block, m.blocks, m.shared_packs) = (block, blocks, 100);
                    // A flag that has not been written for long.
                    m.flags.extend(missing.map(|rank| ((row(serial), rank), Epoch(serial.wrapping_sub(4)))));
                    run::<F32>(algorithm, &m);
                    m
                };
                let m = of(None);
                assert!(!m.left());
                let next = serial.wrapping_add(1);
                let told = (1..4).map(|peer| (Rank(peer), row(next), Epoch(next)));
                assert_eq!(*m.told.borrow(), told.filter(|_| begins && block == 0).collect::<Vec<_>>());

                let m = of(Some(Rank(2)));
                let ends = announced && block == 0;
                assert_eq!(stop(&m), ends.then(|| late(Rank(2), block, Epoch(10))));
                let epoch = if ends { Epoch::STOPPED } else { Epoch(10) };
                let moved = m.epochs.borrow().iter().filter(|&&word| word == epoch).count();
                assert_eq!(moved, MAX_BLOCKS / blocks as usize, "each block moves its share of the words");
                let before = Cursor { serial, used, announced };
                let moved = m.cursors.borrow().iter().filter(|&&cursor| cursor != before).count();
                assert_eq!(moved, MAX_BLOCKS / blocks as usize, "each block moves its share of the cursors");
            }
        }
    }
}
