//! Layout: no two writers share a word, no two areas overlap, words mean what was put into them, and every element of a
//! call belongs to one thread.

mod lone;

use std::collections::HashSet;
use std::ops::Range;

use allfold::{Dtype, MAX_BLOCKS, MAX_RANKS, Phase, Preset, Protocol, Rank};
use allfold_kernels::protocol::abi::{
    AREA_ALIGN_BYTES, BANKS, Bank, FIRST_WRONG_OFFSET_BYTES, FLAGS_BYTES, FlagRow, GENERATIONS, GONE_OFFSET_BYTES,
    MISSING_OFFSET_BYTES, SIGNAL_BYTES, STOP_OFFSET_BYTES, WAITED_OFFSET_BYTES, WRONG_OFFSET_BYTES, WorkspaceLayout,
    call_offset_bytes, cursor_offset_bytes, epoch_offset_bytes, first_words, flag_offset_bytes,
};
use allfold_kernels::protocol::element::{Bf16, Element, F16, F32};
use allfold_kernels::protocol::epoch::Epoch;
use allfold_kernels::protocol::machine::{Machine, Pack, Region};
use allfold_kernels::protocol::mark::{MARK_WORDS, MARKED_CALLS, marks_offset_bytes};
use allfold_kernels::protocol::push::Cursor;
use allfold_kernels::protocol::share::{Span, Step, Unit, for_each, packs, part, part_packs};
use allfold_kernels::protocol::spec::{Check, Order, Reuse, Scope, Start};
use lone::Lone;

const WORD: usize = size_of::<u64>();

#[test]
fn b01_every_flag_has_a_word_of_its_own() {
    let mut seen = HashSet::new();
    for phase in Phase::ALL {
        for bank in 0..BANKS as u32 {
            for block in 0..MAX_BLOCKS as u32 {
                for emitter in 0..MAX_RANKS as u32 {
                    let offset = flag_offset_bytes(FlagRow { phase, bank: Bank(bank), block }, Rank(emitter));
                    assert!(offset.is_multiple_of(WORD) && offset + WORD <= FLAGS_BYTES);
                    assert!(seen.insert(offset), "{phase:?} bank {bank} block {block} emitter {emitter}");
                }
            }
        }
    }
    assert_eq!(seen.len() * WORD, FLAGS_BYTES);
}

/// Flags and epoch words say what the last call was, and cursors that a generation of that number is empty.
#[test]
fn a_new_workspace_begins_with_words_of_the_last_call() {
    for last in [0, 7, u64::MAX >> 2] {
        let words: Vec<_> = first_words(last).collect();
        assert_eq!(words, first_words(last | 3 << 62).collect::<Vec<_>>());
        assert_eq!(words.len() * WORD, SIGNAL_BYTES);
        assert!(words[STOP_OFFSET_BYTES / WORD..].iter().all(|&word| word == 0), "nobody has stopped or waited");
        for block in [0, 1, MAX_BLOCKS as u32 - 1] {
            let row = FlagRow { phase: Phase::Landing, bank: Bank(1), block };
            for offset in [flag_offset_bytes(row, Rank(3)), epoch_offset_bytes(block)] {
                assert_eq!(words[offset / WORD], last);
            }
            let cursor = cursor_offset_bytes(block) / WORD;
            let wanted = Cursor { serial: last, used: 0, announced: false };
            assert_eq!(Cursor::decode([words[cursor], words[cursor + 1]]), wanted);
        }
    }
}

#[test]
fn a_cursor_is_read_as_it_was_written() {
    for serial in [0, 1, u64::from(u32::MAX), u64::MAX] {
        for used in [0, 1, 1 << 31, u32::MAX] {
            for announced in [false, true] {
                let cursor = Cursor { serial, used, announced };
                assert_eq!(Cursor::decode(cursor.encode()), cursor);
            }
        }
    }
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

#[test]
fn b59_nothing_of_a_workspace_overlaps() {
    for scratch_bytes in [0, 1, 16, 127, 128, 129, 1 << 20, (1 << 32) + 16] {
        for staging_bytes in [0, 16, 4096, 4097, (1 << 31) - 16, 1 << 33] {
            let (world, landing_bytes) = (3, staging_bytes / 2);
            let layout = WorkspaceLayout::new(world, scratch_bytes, staging_bytes, landing_bytes).unwrap();
            let unmarked = layout;
            let layout = layout.with_marks().unwrap();
            assert!(layout.has_marks() && !unmarked.has_marks() && unmarked.total_bytes == layout.marks_offset_bytes);
            let epochs =
                (0..MAX_BLOCKS as u32).map(|block| epoch_offset_bytes(block)..epoch_offset_bytes(block) + WORD);
            let cursors =
                (0..MAX_BLOCKS as u32).map(|block| cursor_offset_bytes(block)..cursor_offset_bytes(block) + 2 * WORD);
            let mut areas: Vec<_> = std::iter::once(0..FLAGS_BYTES).chain(epochs).chain(cursors).collect();
            let board = [STOP_OFFSET_BYTES, GONE_OFFSET_BYTES, MISSING_OFFSET_BYTES, WAITED_OFFSET_BYTES];
            areas.extend(board.into_iter().chain([WRONG_OFFSET_BYTES]).map(|offset| offset..offset + WORD));
            for (bank, emitter) in
                (0..BANKS as u32).flat_map(|bank| (0..MAX_RANKS as u32).map(move |rank| (bank, rank)))
            {
                let offset = call_offset_bytes(Bank(bank), Rank(emitter));
                areas.push(offset..offset + 2 * WORD);
            }
            areas.push(FIRST_WRONG_OFFSET_BYTES..FIRST_WRONG_OFFSET_BYTES + 2 * WORD);
            assert!(areas.iter().all(|area| area.end <= SIGNAL_BYTES && area.start.is_multiple_of(WORD)));
            let scratch = layout.scratch_offset_bytes;
            areas.push(scratch..scratch + scratch_bytes);
            for bank in 0..BANKS {
                let start = layout.staging_offset_bytes + bank * layout.staging_bank_bytes;
                areas.push(start..start + staging_bytes);
            }
            for slot in 0..GENERATIONS * (world as usize - 1) {
                let start = layout.landing_offset_bytes + slot * layout.landing_slot_bytes;
                areas.push(start..start + landing_bytes);
            }
            for (call, block) in [(0, 0), (1, 0), (0, 1), (MARKED_CALLS as u64 - 1, MAX_BLOCKS as u32 - 1)] {
                let start = layout.marks_offset_bytes + marks_offset_bytes(Epoch(call), block);
                areas.push(start..start + MARK_WORDS * WORD);
            }
            for (index, area) in areas.iter().enumerate() {
                assert!(area.end <= layout.total_bytes, "{area:?} of {}", layout.total_bytes);
                for other in &areas[..index] {
                    assert!(area.is_empty() || other.is_empty() || !overlap(area, other), "{area:?} and {other:?}");
                }
            }
            let landing = areas.len() - 4 - 3..areas.len() - 4;
            assert!(areas[landing].iter().all(|area| area.start.is_multiple_of(AREA_ALIGN_BYTES)));
        }
    }
}

#[test]
fn b59_a_workspace_that_passes_the_address_space_is_none() {
    let most = usize::MAX;
    let sizes = [(most, 0, 0), (0, most, 0), (most - 127, 0, 0), (0, most / 2, 0), (most / 2, most / 4 + 1, 0)];
    for (scratch, staging, landing) in
        sizes.into_iter().chain([(0, 0, most), (0, 0, most / 4), (most / 2, 0, most / 8)])
    {
        assert_eq!(WorkspaceLayout::new(2, scratch, staging, landing), None, "{scratch}, {staging} and {landing}");
    }
}

#[test]
fn a_protocol_is_read_as_it_was_written() {
    let orders = [Order::Volatile, Order::ReleaseAcquire];
    let mut reuses = vec![Reuse::Parity, Reuse::Nothing];
    for sync_after in [false, true] {
        reuses.extend(orders.map(|order| Reuse::EndBarrier { order, sync_after }));
    }
    let mut seen = HashSet::new();
    for copy_in in [false, true] {
        for scope in [Scope::MultiGpu, Scope::Block] {
            for (order, middle) in orders.into_iter().flat_map(|order| orders.map(|middle| (order, middle))) {
                for sync_before in [false, true] {
                    for check in [Check::Reached, Check::Equal] {
                        for &reuse in &reuses {
                            let start = Start { scope, order, sync_before };
                            let protocol = Protocol { copy_in, start, middle, reuse, check };
                            assert_eq!(Protocol::decode(protocol.encode()), protocol);
                            assert!(seen.insert(protocol.encode()), "{protocol:?}");
                        }
                    }
                }
            }
        }
    }
    assert_eq!(seen.len(), 2 * 2 * 4 * 2 * 2 * 6);
    assert_eq!(Preset::ALL.iter().collect::<HashSet<_>>().len(), Preset::ALL.len());
}

#[test]
fn b13_b50_b82_a_flag_counts_for_its_call_and_the_two_before_across_the_wrap() {
    for wanted in [1, 2, 1 << 31, 1 << 32, (1 << 32) + 1, 1 << 63, u64::MAX - 1, u64::MAX, 0] {
        let at = |steps: u64| Epoch(wanted).0.wrapping_add(steps);
        for ahead in [0, 1, 2] {
            assert!(Epoch(at(ahead)).reached(Epoch(wanted)), "{wanted} + {ahead}");
        }
        // However long ago it was written: half the number range, all of it but a little.
        for behind in [1, 2, 1 << 32, 1 << 63, (1 << 63) + 1, u64::MAX - 2] {
            assert!(!Epoch(at(0u64.wrapping_sub(behind))).reached(Epoch(wanted)), "{wanted} - {behind}");
        }
        assert_eq!(Epoch(wanted).next(), Epoch(wanted.wrapping_add(1)));
        assert_ne!(Epoch(wanted).next().bank(), Epoch(wanted).bank(), "two calls in a row share a bank");
    }
}

#[test]
fn b16_b85_parts_cover_all_packs_once() {
    for packs in (0..200).chain([1 << 20, (1 << 32) + 5, u64::MAX / 64]) {
        for world in 1..=MAX_RANKS as u32 {
            let mut end = 0;
            for rank in 0..world {
                let span = part(packs, world, Rank(rank));
                assert_eq!(span.start, end, "{packs} packs, {world} ranks, rank {rank}");
                assert!(span.end >= span.start && span.end - span.start <= part_packs(packs, world));
                end = span.end;
            }
            assert_eq!(end, packs);
        }
    }
}

struct Visit;

impl<M: Machine> Step<M> for Visit {
    type Loaded = Pack;

    // The dtype only counts lanes, and every test here has those of its machine.
    fn load<U: Unit>(&self, m: &M, unit: U) -> Pack {
        unit.load::<M, F32>(m, Region::Source, m.rank())
    }
    fn finish<U: Unit>(&self, m: &M, unit: U, loaded: Pack) {
        unit.store::<M, F32>(m, Region::Output, loaded);
    }
}

/// Which block has which element of `span`; fails when one has none, or two.
fn owners<T: Element>(elems: u64, span: Span, grid: (u32, u32), aligned: bool) -> Vec<u32> {
    let owners = owners_ahead::<T, 1>(elems, span, grid, aligned);
    assert_eq!(owners_ahead::<T, 2>(elems, span, grid, aligned), owners);
    assert_eq!(owners_ahead::<T, 4>(elems, span, grid, aligned), owners);
    owners
}

fn owners_ahead<T: Element, const AHEAD: usize>(
    elems: u64,
    span: Span,
    (blocks, threads): (u32, u32),
    aligned: bool,
) -> Vec<u32> {
    let lanes = T::DTYPE.lanes() as u64;
    let (first, end) = ((span.start * lanes).min(elems), (span.end * lanes).min(elems));
    let mut owners = vec![None; (end - first) as usize];
    for (block, thread) in (0..blocks).flat_map(|block| (0..threads).map(move |thread| (block, thread))) {
        let mut m = Lone::new(1, elems, lanes, Epoch(0));
        (m.block, m.blocks, m.thread, m.threads, m.aligned) = (block, blocks, thread, threads, aligned);
        for_each::<_, T, AHEAD>(&m, span, &Visit);
        for access in m.stores.borrow().iter() {
            for elem in access.elem..access.elem + access.elems {
                assert!((first..end).contains(&elem), "element {elem} of {first}..{end}");
                let owner = &mut owners[(elem - first) as usize];
                assert_eq!(*owner, None, "element {elem} of {elems} is visited twice");
                *owner = Some(block);
            }
        }
    }
    owners.into_iter().map(|owner| owner.expect("every element is visited")).collect()
}

fn shares<T: Element>() {
    let lanes = T::DTYPE.lanes() as u64;
    for grid in [(1, 1), (2, 2), (4, 3), (3, 5), (7, 1), (1, 33), (5, 32)] {
        for elems in (0..70).chain([127, 128, 129, 255, 300, 1000, 1023, 1024, 1025]) {
            let all = Span { start: 0, end: packs(T::DTYPE, elems) };
            assert_eq!(all.end, elems.div_ceil(lanes));
            // Alignment changes how an element is accessed, never by which block.
            assert_eq!(owners::<T>(elems, all, grid, true), owners::<T>(elems, all, grid, false), "{elems} {grid:?}");
            for world in [2, 3, 8] {
                for rank in 0..world {
                    let span = part(all.end, world, Rank(rank));
                    let aligned = owners::<T>(elems, span, grid, true);
                    assert_eq!(aligned, owners::<T>(elems, span, grid, false), "{elems} {grid:?}");
                }
            }
        }
    }
}

#[test]
fn b20_b50_shares_cover_all_elements_once_in_f32() {
    shares::<F32>();
}

#[test]
fn b20_b50_shares_cover_all_elements_once_in_16_bits() {
    shares::<F16>();
    shares::<Bf16>();
    assert_eq!(Dtype::F16.lanes(), Dtype::Bf16.lanes());
    assert_eq!(Dtype::F32.lanes(), Dtype::I32.lanes());
}
