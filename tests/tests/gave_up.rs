//! A rank whose peers do not come: it leaves, says for whom it waited and in which barrier, and touches nothing more.
//!
//! Long: all ways in which a call is left, of every form that has barriers.

mod lone;

use allfold::{Algorithm, Dtype, InputMode, Phase, Preset, Protocol, Rank, Ranks, ReduceOp, Stop, Why};
use allfold_kernels::protocol::abi::{FlagRow, MAX_BLOCKS};
use allfold_kernels::protocol::element::{Bf16, F32};
use allfold_kernels::protocol::epoch::Epoch;
use allfold_kernels::protocol::exchange::exchange;
use allfold_kernels::protocol::machine::Region;
use allfold_kernels::protocol::one_pass::one_pass;
use allfold_kernels::protocol::one_shot::one_shot;
use allfold_kernels::protocol::push::Cursor;
use allfold_kernels::protocol::share::{packs, part};
use allfold_kernels::protocol::signature::{Call, Collective};
use allfold_kernels::protocol::spec::{Order, Reuse, Scope};
use allfold_kernels::protocol::status::{Board, LongestWait};
use allfold_kernels::protocol::two_shot::two_shot;
use allfold_kernels::protocol::wait::Wait;
use lone::Lone;

const ELEMS: u64 = 100;
const LANES: u64 = 8;
/// Calls before: none, and such that the next has a number at a wrap of 32 bits, or a large one.
const LAST: [u64; 4] = [0, 6, u32::MAX as u64, u64::MAX >> 2];

fn run(algorithm: Algorithm, protocol: Protocol, m: &Lone) {
    macro_rules! worlds {
        ($($W:literal)*) => {
            match (algorithm, m.world) {
                $(
                    (Algorithm::OneShot, $W) => one_shot::<_, Bf16, $W>(m, protocol),
                    (Algorithm::TwoShot, $W) => two_shot::<_, Bf16, $W>(m, protocol),
                    (Algorithm::OnePass, $W) => one_pass::<_, Bf16, $W>(m, protocol),
                )*
                (Algorithm::Exchange, 2) => exchange::<_, Bf16>(m, protocol),
                _ => panic!("{} ranks", m.world),
            }
        };
    }
    worlds!(2 3 4 5 6 7 8);
}

/// Every form of every preset that has barriers.
fn forms() -> Vec<(Algorithm, InputMode, Protocol)> {
    let mut forms = Vec::new();
    for preset in Preset::ALL {
        for algorithm in Algorithm::ALL.into_iter().filter(|algorithm| !algorithm.pushes()) {
            for input in InputMode::ALL {
                forms.extend(preset.protocol(algorithm, input).map(|protocol| (algorithm, input, protocol)));
            }
        }
    }
    forms
}

/// The barriers of a form, in order, and whose row is waited for in each.
fn barriers(algorithm: Algorithm, protocol: Protocol) -> Vec<(Phase, Scope)> {
    let mut barriers = vec![(Phase::Start, protocol.start.scope)];
    if [Algorithm::TwoShot, Algorithm::Exchange].contains(&algorithm) {
        barriers.push((Phase::Middle, Scope::Block));
    }
    if let Reuse::EndBarrier { order: Order::Volatile | Order::ReleaseAcquire, .. } = protocol.reuse {
        barriers.push((Phase::End, Scope::Block));
    }
    barriers
}

fn row(block: u32, epoch: Epoch, (phase, scope): (Phase, Scope)) -> FlagRow {
    let block = if scope == Scope::Block { block } else { 0 };
    FlagRow { phase, bank: epoch.bank(), block }
}

/// A rank in the call after `last` to which every peer has come in the first `come` barriers, and all but `missing` (if
/// there is one) in the next.
fn waiting(world: u32, rank: u32, block: u32, last: u64, barriers: &[(Phase, Scope)], missing: Option<u32>) -> Lone {
    let mut m = Lone::new(world, ELEMS, LANES, Epoch(last));
    (m.rank, m.block, m.blocks) = (rank, block, 2);
    let epoch = Epoch(last).next();
    // No flag is fresh: what is not set below holds the number of the call two before.
    for phase in Phase::BARRIERS {
        for (scope, peer) in (0..world).flat_map(|peer| [Scope::Block, Scope::MultiGpu].map(|scope| (scope, peer))) {
            m.flags.insert((row(block, epoch, (phase, scope)), Rank(peer)), Epoch(last.wrapping_sub(1)));
        }
    }
    for (number, &barrier) in barriers.iter().enumerate() {
        for peer in (0..world).filter(|&peer| number + 1 < barriers.len() || Some(peer) != missing) {
            m.flags.insert((row(block, epoch, barrier), Rank(peer)), epoch);
        }
    }
    m
}

/// All ranks in the order in which one that stops tells them: once its own word is there, those to all others are under way.
fn own_last(m: &Lone) -> impl Iterator<Item = Rank> + use<> {
    let (own, world) = (m.rank, m.world);
    (1..=world).map(move |step| Rank((own + step) % world))
}

#[test]
fn a_missing_peer_is_named_and_nothing_more_is_touched() {
    let mut cases = 0;
    for (algorithm, input, protocol) in forms() {
        let all = barriers(algorithm, protocol);
        for world in (2..=8).filter(|&world| algorithm.takes(world)) {
            for (rank, missing) in [(0, 1), (0, world - 1), (world - 1, 0), (1, 0)] {
                let stops = (0..all.len()).flat_map(|stop| [(stop, 0), (stop, 1)]);
                for ((stop, block), last) in stops.flat_map(|stop| LAST.map(|last| (stop, last))) {
                    let m = waiting(world, rank, block, last, &all[..=stop], Some(missing));
                    run(algorithm, protocol, &m);
                    let what = format!("{algorithm:?} {input:?} {protocol:?} {world} ranks, rank {rank}, after {last}");
                    let epoch_low = Epoch(last).next().0 & ((1 << 40) - 1);
                    let (phase, missing) = (all[stop].0, Rank(missing));
                    let (by, ranks) = (Rank(rank), Ranks::of(missing));
                    let stop = Stop { why: Why::TimedOut, by, phase, block, ranks, epoch_low };
                    let all_ranks: Vec<_> = own_last(&m).map(|rank| (rank, stop)).collect();
                    assert_eq!(*m.stops.borrow(), all_ranks, "{what}");
                    assert_eq!(m.missing.borrow()[..], [ranks], "{what}");
                    let longest = m.waits.borrow().iter().map(|wait| wait.encode()).max().map(LongestWait::decode);
                    assert_eq!(longest, Some(LongestWait { ticks: 4, ranks }), "{what}");
                    stopped(&m, &what);
                    // Only in the last phase an output may be whole, and then it is not looked at any more either.
                    poisoned(&m, algorithm, &what);
                    left_alone(&m, phase, algorithm, protocol, &what);
                    // Each peer that came is looked at once in each barrier, and the missing one until it is late, and once more.
                    assert!((4..=4 + 3 * 7).contains(&m.polls.get()), "{} polls, {what}", m.polls.get());
                    cases += 1;
                }
            }
        }
    }
    assert!(cases > 5000, "{cases}");
}

/// Every later call of any grid ends at its start, as far as this block has a say.
fn stopped(m: &Lone, what: &str) {
    for (word, epoch) in m.epochs.borrow().iter().enumerate() {
        assert!(word as u32 % m.blocks != m.block || epoch.is_stopped(), "word {word}, {what}");
    }
}

/// What this block would have written holds no sum, and nothing that another block writes is touched.
fn poisoned(m: &Lone, algorithm: Algorithm, what: &str) {
    let parts = if algorithm == Algorithm::OneShot { 1 } else { m.world };
    let mut wanted = Vec::new();
    for rank in 0..parts {
        let part = part(packs(Dtype::Bf16, ELEMS), parts, Rank(rank));
        let packs =
            (part.start..part.end).filter(|pack| (pack - part.start) % u64::from(m.blocks) == u64::from(m.block));
        wanted.extend(packs.flat_map(|pack| pack * LANES..(pack * LANES + LANES).min(ELEMS)));
    }
    let mut got = m.poisoned.borrow().clone();
    got.sort_unstable();
    assert_eq!(got, wanted, "{what}");
}

/// What a rank may have read and written before it gave up in `phase`.
fn left_alone(m: &Lone, phase: Phase, algorithm: Algorithm, protocol: Protocol, what: &str) {
    let part_of = |rank| {
        let part = part(packs(Dtype::Bf16, ELEMS), m.world, Rank(rank));
        part.start * LANES..part.end * LANES
    };
    let exchange = algorithm == Algorithm::Exchange;
    for store in m.stores.borrow().iter() {
        match (store.region, phase) {
            (Region::Input(_), _) => assert!(protocol.copy_in, "{store:?} {what}"),
            (Region::Output, Phase::Middle) => {
                // Only the own part is reduced; in an exchange not yet.
                assert!(!exchange && part_of(m.rank).contains(&store.elem), "{store:?} {what}");
            }
            (Region::Scratch, Phase::Middle | Phase::End) | (Region::Output, Phase::End) => {}
            (Region::Source | Region::Scratch | Region::Output, _) => panic!("{store:?} {what}"),
        }
    }
    for load in m.loads.borrow().iter() {
        match (load.region, phase) {
            (Region::Source, Phase::Middle | Phase::End) if exchange => assert_eq!(load.owner.0, m.rank, "{what}"),
            (Region::Output, Phase::End) if exchange => assert_eq!(load.owner.0, m.rank, "{what}"),
            (Region::Source, _) => assert!(protocol.copy_in && load.owner.0 == m.rank, "{load:?} {what}"),
            (Region::Input(_), Phase::Middle | Phase::End) | (Region::Scratch, Phase::End) => {}
            (Region::Input(_) | Region::Scratch | Region::Output, _) => panic!("{load:?} {what}"),
        }
    }
    for given in m.given.borrow().iter() {
        match (algorithm, phase) {
            // Own sums, once all inputs are there.
            (Algorithm::OnePass, Phase::End) => assert!(part_of(m.rank).contains(&given.elem), "{given:?} {what}"),
            // Terms of the peer's part, and then own sums.
            (Algorithm::Exchange, Phase::Middle | Phase::End) => {
                let sum = phase == Phase::End && part_of(m.rank).contains(&given.elem);
                let term = part_of(1 - m.rank).contains(&given.elem);
                assert!(given.owner.0 != m.rank && (sum || term), "{given:?} {what}");
            }
            _ => panic!("{given:?} {what}"),
        }
    }
}

#[test]
fn a_call_to_which_all_come_ends_and_moves_every_epoch_word() {
    for (algorithm, _, protocol) in forms() {
        let all = barriers(algorithm, protocol);
        for world in (2..=8).filter(|&world| algorithm.takes(world)) {
            for (rank, last) in [(0, 0), (1, u32::MAX.into()), (world - 1, u64::MAX >> 2)] {
                let mut words = vec![Epoch(last); MAX_BLOCKS];
                for block in 0..2 {
                    let m = waiting(world, rank, block, last, &all, None);
                    run(algorithm, protocol, &m);
                    assert!(!m.left() && m.stops.borrow().is_empty());
                    for (word, &moved) in words.iter_mut().zip(m.epochs.borrow().iter()) {
                        // A word that both blocks move would be a race.
                        assert!(moved == Epoch(last) || *word == Epoch(last));
                        *word = if moved == Epoch(last) { *word } else { moved };
                    }
                    announced(&m, &all, Epoch(last).next());
                }
                assert!(words.iter().all(|&word| word == Epoch(last).next()), "words of blocks without a launch too");
            }
        }
    }
}

/// Every peer is told once in each barrier, in this rank's own row; by block 0 alone where the barrier is of the GPUs.
fn announced(m: &Lone, barriers: &[(Phase, Scope)], epoch: Epoch) {
    let mut wanted = Vec::new();
    for &barrier in barriers {
        if barrier.1 == Scope::Block || m.block == 0 {
            let peers = (0..m.world).filter(|&peer| peer != m.rank);
            wanted.extend(peers.map(|peer| (Rank(peer), row(m.block, epoch, barrier), epoch)));
        }
    }
    assert_eq!(*m.told.borrow(), wanted);
}

#[test]
fn without_a_limit_a_wait_goes_on_until_the_peer_comes() {
    // A clock that goes on, a limit that is none, and a peer that comes late.
    let protocol = Preset::Allfold.protocol(Algorithm::OneShot, InputMode::Registered).unwrap();
    let all = barriers(Algorithm::OneShot, protocol);
    for (timeout, comes) in [(u64::MAX, true), (3, false)] {
        let mut m = waiting(2, 0, 0, 41, &all[..1], Some(1));
        (m.timeout, m.comes_after) = (timeout, Some(50));
        // In the end barrier, which comes next, it is there from the start.
        m.flags.insert((row(0, Epoch(42), all[1]), Rank(1)), Epoch(42));
        one_shot::<_, F32, 2>(&m, protocol);
        assert_eq!((m.left(), m.polls.get() >= 50), (!comes, comes), "{} polls", m.polls.get());
    }
}

/// A rank that waits in the start barrier of our own one-shot for rank 1.
fn waiting_for_1(world: u32) -> (Lone, Protocol) {
    let protocol = Preset::Allfold.protocol(Algorithm::OneShot, InputMode::Registered).unwrap();
    let all = barriers(Algorithm::OneShot, protocol);
    (waiting(world, 0, 0, 6, &all[..1], Some(1)), protocol)
}

#[test]
fn a_rank_that_is_gone_ends_the_waits_for_it_and_no_others() {
    for (gone, ends) in [(Ranks::of(Rank(1)), true), (Ranks::of(Rank(2)), false)] {
        let (mut m, protocol) = waiting_for_1(3);
        m.timeout = 50;
        m.board.set(Board { gone, ..Board::default() });
        run(Algorithm::OneShot, protocol, &m);
        let stops = m.stops.borrow();
        let why = if ends { Why::Gone } else { Why::TimedOut };
        assert!(stops.iter().all(|(_, stop)| stop.why == why && stop.ranks == Ranks::of(Rank(1))), "{stops:?}");
        assert_eq!(m.polls.get() < 10, ends, "{} polls", m.polls.get());
    }
}

#[test]
fn a_rank_that_is_told_to_stop_does_and_tells_what_only_its_host_has_said() {
    let stop = Stop::outside(Why::Aborted, Rank(2));
    for of_host in [false, true] {
        let (mut m, protocol) = waiting_for_1(3);
        m.timeout = u64::MAX;
        let word = |is| if is { stop.encode() } else { 0 };
        m.board.set(Board { stop: word(!of_host), gone: Ranks::NONE });
        m.host_board.set(Board { stop: word(of_host), gone: Ranks::NONE });
        run(Algorithm::OneShot, protocol, &m);
        // Who told this rank by its own word has told the others; this rank's host is to know it, too.
        let wanted: Vec<_> = own_last(&m).filter(|rank| of_host || rank.0 == m.rank).map(|rank| (rank, stop)).collect();
        assert_eq!(*m.stops.borrow(), wanted);
        stopped(&m, "told");
        poisoned(&m, Algorithm::OneShot, "told");
    }
}

#[test]
fn what_comes_while_a_wait_is_ending_counts() {
    // Told to stop, but all peers are there by the poll after that.
    let (mut m, protocol) = waiting_for_1(2);
    m.board.set(Board { stop: Stop::outside(Why::Aborted, Rank(1)).encode(), ..Board::default() });
    m.comes_after = Some(2);
    run(Algorithm::OneShot, protocol, &m);
    // In the end barrier nobody is there, and it ends: one thing after the other.
    assert!(m.loads.borrow().len() > 1, "the start barrier was passed");
}

/// What ended a wait has to hold for those who are missing then: one that is gone had sent all before it went.
#[test]
fn a_wait_goes_on_where_who_is_gone_had_come() {
    let mut m = Lone::new(4, ELEMS, LANES, Epoch(0));
    m.timeout = u64::MAX;
    let mut wait = Wait::new();
    m.board.set(Board { stop: 0, gone: Ranks::of(Rank(1)) });
    let missing = Ranks::of(Rank(1)).with(Rank(2));
    assert!(wait.goes_on(&m, || missing), "there is one more poll");
    assert!(wait.goes_on(&m, || Ranks::of(Rank(2))), "what rank 1 sent has come by then, and rank 2 is not gone");
    assert!(wait.goes_on(&m, || missing) && !wait.goes_on(&m, || missing));
}

#[test]
fn a_call_after_the_end_does_nothing() {
    for (algorithm, input, protocol) in forms() {
        let all = barriers(algorithm, protocol);
        let m = waiting(2, 0, 0, 6, &all, None);
        m.epochs.borrow_mut().fill(Epoch::STOPPED);
        m.cursors.borrow_mut().fill(Cursor::STOPPED);
        run(algorithm, protocol, &m);
        let what = format!("{algorithm:?} {input:?}");
        assert!(m.told.borrow().is_empty() && m.loads.borrow().is_empty() && m.stores.borrow().is_empty(), "{what}");
        assert_eq!(m.polls.get(), 0, "{what}");
        poisoned(&m, algorithm, &what);
    }
}

/// A call that ranks compare.
const CALL: Call = Call {
    collective: Collective::AllReduce,
    elems: ELEMS,
    dtype: Dtype::Bf16,
    op: ReduceOp::Sum,
    algorithm: Algorithm::OneShot,
    input: InputMode::Registered,
    blocks: 2,
    threads: 1,
    protocol: 7,
};

#[test]
fn ranks_that_make_different_calls_stop_before_they_touch_each_other() {
    let epoch = Epoch(7);
    let told = |call: &Call| call.signature().0.map(|word| word | epoch.0 << 48);
    for (algorithm, input, protocol) in forms() {
        let all = barriers(algorithm, protocol);
        for theirs in [CALL, Call { elems: ELEMS + 1, ..CALL }, Call { dtype: Dtype::F32, ..CALL }] {
            let mut m = waiting(2, 0, 1, epoch.0 - 1, &all, None);
            m.signature = CALL.signature();
            m.calls.insert(Rank(1), told(&theirs));
            run(algorithm, protocol, &m);
            let what = format!("{algorithm:?} {input:?} {theirs:?}");
            let same = theirs == CALL;
            assert_eq!(m.left(), !same, "{what}");
            if !same {
                let stops = m.stops.borrow();
                assert!(stops.iter().all(|(_, stop)| (stop.why, stop.ranks) == (Why::Differs, Ranks(2))), "{stops:?}");
                left_alone(&m, Phase::Start, algorithm, protocol, &what);
            }
            // Block 0 tells, for all; and whoever finds a difference, lest the others do not know what it is.
            let both: Vec<_> = own_last(&m).map(|rank| (rank, told(&CALL))).collect();
            assert_eq!(*m.told_calls.borrow(), if same { &both[..0] } else { &both[..] }, "{what}");
            let mut first = waiting(2, 0, 0, epoch.0 - 1, &all, None);
            first.signature = CALL.signature();
            first.calls.insert(Rank(1), told(&CALL));
            run(algorithm, protocol, &first);
            assert_eq!(*first.told_calls.borrow(), [(Rank(0), told(&CALL)), (Rank(1), told(&CALL))], "{what}");
        }
    }
}

#[test]
fn a_peer_that_does_not_come_because_it_makes_another_call_is_said_to_differ() {
    let (mut m, protocol) = waiting_for_1(2);
    m.signature = CALL.signature();
    m.calls.insert(Rank(1), Call { blocks: 1, ..CALL }.signature().0.map(|word| word | 7 << 48));
    run(Algorithm::OneShot, protocol, &m);
    let stops = m.stops.borrow();
    assert!(stops.iter().all(|(_, stop)| stop.why == Why::Differs && stop.ranks == Ranks(2)), "{stops:?}");
    assert!(m.missing.borrow().is_empty(), "nobody is missing");
}
