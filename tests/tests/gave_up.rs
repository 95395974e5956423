//! A rank whose peers do not come: it leaves, says for whom it waited and in which barrier, and touches nothing more.

mod lone;

use allfold::{Algorithm, Dtype, GaveUp, InputMode, Phase, Preset, Protocol, Rank};
use allfold_kernels::protocol::abi::{FlagRow, MAX_BLOCKS};
use allfold_kernels::protocol::element::{Bf16, F32};
use allfold_kernels::protocol::epoch::Epoch;
use allfold_kernels::protocol::exchange::exchange;
use allfold_kernels::protocol::machine::Region;
use allfold_kernels::protocol::one_pass::one_pass;
use allfold_kernels::protocol::one_shot::one_shot;
use allfold_kernels::protocol::share::{packs, part};
use allfold_kernels::protocol::spec::{Order, Reuse, Scope};
use allfold_kernels::protocol::two_shot::two_shot;
use lone::Lone;

const ELEMS: u64 = 100;
const LANES: u64 = 8;
/// Calls before: none, and such that the next has a number at a wrap.
const LAST: [u64; 5] = [0, 6, u32::MAX as u64, u64::MAX - 1, u64::MAX];

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
                    assert_eq!(*m.reports.borrow(), [GaveUp { phase, missing, block, epoch_low }], "{what}");
                    // It moves once all that this rank needs of its peers has been read, and not before.
                    let moved = m.epochs.borrow().iter().any(|&epoch| epoch != Epoch(last));
                    assert_eq!(moved, phase == Phase::End, "the epoch: {what}");
                    left_alone(&m, phase, algorithm, protocol, &what);
                    // Each peer that came is looked at once in each barrier, and the missing one up to the limit.
                    assert!(m.polls.get() >= m.poll_limit && m.polls.get() <= m.poll_limit + 3 * 7, "{what}");
                    cases += 1;
                }
            }
        }
    }
    assert!(cases > 5000, "{cases}");
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
            for (rank, last) in [(0, 0), (1, u64::MAX - 1), (world - 1, u64::MAX)] {
                let mut words = vec![Epoch(last); MAX_BLOCKS];
                for block in 0..2 {
                    let m = waiting(world, rank, block, last, &all, None);
                    run(algorithm, protocol, &m);
                    assert!(m.reports.borrow().is_empty());
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
    // The limit itself is the machine's: here one that never says stop but counts, and a peer that was there before.
    let protocol = Preset::Allfold.protocol(Algorithm::OneShot, InputMode::Registered).unwrap();
    let all = barriers(Algorithm::OneShot, protocol);
    let mut m = waiting(2, 0, 0, 41, &all, None);
    m.poll_limit = u64::MAX;
    one_shot::<_, F32, 2>(&m, protocol);
    assert_eq!(m.polls.get(), 2, "one look at each barrier's flag is enough");
    assert_eq!(m.epochs.borrow()[0], Epoch(42));
}
