//! Which ordered pairs of ranks have failed: a pure function of what all ranks found in a call, the same on every rank.
//!
//! A pair `(from, to)` has failed where what `from` does has not come to `to`: its flag, or its data, whoever moves them.

use std::collections::BTreeSet;

use allfold_kernels::protocol::abi::{Algorithm, Rank};
use allfold_kernels::protocol::share::part;
use allfold_kernels::protocol::status::{Ranks, Stop, Why};

use super::finding::Finding;
use super::pattern::Pattern;

type Pairs = BTreeSet<(u32, u32)>;

/// How a call of the self-test went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Right,
    Failed(Fault),
    /// Ranks left it for a reason that says nothing of paths: somebody is gone.
    Left(Stop),
}

/// Pairs that have failed, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) pairs: Vec<(u32, u32)>,
    pub(super) symptom: Symptom,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symptom {
    /// Something did not come within the time limit.
    Silent,
    /// It came, and was wrong: so many elements of all ranks' outputs; 0: what they told each other of the call.
    Wrong { elems: usize },
}

/// What all ranks, in order, have found in a call of `pattern`'s numbers by `algorithm`.
pub(super) fn judge(pattern: Pattern, algorithm: Algorithm, findings: &[Finding]) -> Verdict {
    let stops = || findings.iter().filter_map(|finding| finding.stop);
    let failed = |pairs: Pairs, symptom| Verdict::Failed(Fault { pairs: pairs.into_iter().collect(), symptom });
    let differs: Pairs = stops()
        .filter(|stop| stop.why == Why::Differs && stop.by.0 < pattern.world)
        .flat_map(|stop| among(pattern.world, stop.ranks).map(move |from| (from, stop.by.0)))
        .filter(|(from, to)| from != to)
        .collect();
    if !differs.is_empty() {
        // All made the same call: what one told of it was spoilt on the way.
        return failed(differs, Symptom::Wrong { elems: 0 });
    }
    if let Some(stop) = stops().find(|stop| stop.why != Why::TimedOut) {
        return Verdict::Left(stop);
    }
    if stops().next().is_some() {
        return failed(silent(pattern.world, algorithm, findings), Symptom::Silent);
    }
    match wrong(pattern, algorithm, findings) {
        (_, 0) => Verdict::Right,
        (pairs, elems) => failed(pairs, Symptom::Wrong { elems }),
    }
}

fn among(world: u32, ranks: Ranks) -> impl Iterator<Item = u32> {
    ranks.iter().map(|Rank(rank)| rank).filter(move |&rank| rank < world)
}

/// The pairs of which something did not come.
fn silent(world: u32, algorithm: Algorithm, findings: &[Finding]) -> Pairs {
    let left = || (0..world).zip(findings).filter(|(_, finding)| finding.stop.is_some());
    if !algorithm.pushes() {
        // All ranks announce themselves before they wait for anybody: whose flag has not come, its pair has failed.
        let not_come = |(to, finding): (u32, &Finding)| {
            let not = Ranks(!finding.started.0);
            among(world, not).filter(move |&from| from != to).map(move |from| (from, to)).collect::<Vec<_>>()
        };
        let pairs: Pairs = left().flat_map(not_come).collect();
        if !pairs.is_empty() {
            return pairs;
        }
    }
    let pairs: Pairs = left()
        .flat_map(|(to, finding)| among(world, finding.missing).map(move |from| (from, to)))
        .filter(|(from, to)| from != to)
        .collect();
    // Later on, who waits in vain is missed by the others in turn; but in a one-shot push all data are under way before that.
    let stuck: BTreeSet<_> = pairs.iter().map(|&(_, to)| to).collect();
    let causes: Pairs = pairs.iter().copied().filter(|(from, _)| !stuck.contains(from)).collect();
    if causes.is_empty() || algorithm == Algorithm::OneShotPush { pairs } else { causes }
}

/// The pairs whose data were wrong, and how many elements were.
fn wrong(pattern: Pattern, algorithm: Algorithm, findings: &[Finding]) -> (Pairs, usize) {
    let (mut pairs, mut unclear, mut elems) = (Pairs::new(), Vec::new(), 0);
    let lanes = pattern.dtype.lanes() as u64;
    for owner in 0..pattern.world {
        let part = part(pattern.packs(), pattern.world, Rank(owner));
        for elem in (part.start * lanes) as usize..(part.end * lanes) as usize {
            let sum = pattern.sum(elem);
            let got = |rank: u32| findings.get(rank as usize).and_then(|finding| pattern.read(&finding.output, elem));
            for to in 0..pattern.world {
                if got(to) == Some(sum) {
                    continue;
                }
                elems += 1;
                // Whoever adds up has every rank's number from its owner; the others have the sum from whoever added up.
                if to == owner || adds_up_itself(algorithm) {
                    match got(to).map(|bits| Ranks(bits ^ sum)) {
                        // Its own number has no way to go: then it is no sum of what anybody gave, though it reads like one.
                        Some(of) if of.and(Ranks::of(Rank(to))).is_empty() => {
                            pairs.extend(among(pattern.world, of).map(|from| (from, to)));
                        }
                        Some(_) | None => unclear.push(to),
                    }
                } else if got(owner) == Some(sum) || got(owner) != got(to) {
                    pairs.insert((owner, to));
                }
            }
        }
    }
    // What is no sum of anybody's numbers: of a rank of which nothing better is known, any of the others may be the cause.
    for to in unclear {
        if !pairs.iter().any(|&(_, known)| known == to) {
            pairs.extend((0..pattern.world).filter(|&from| from != to).map(|from| (from, to)));
        }
    }
    (pairs, elems)
}

/// Whether each rank adds up all elements by itself, or those of its own part alone.
fn adds_up_itself(algorithm: Algorithm) -> bool {
    match algorithm {
        Algorithm::OneShot | Algorithm::OneShotPush => true,
        Algorithm::TwoShot | Algorithm::TwoShotPush | Algorithm::OnePass | Algorithm::Exchange => false,
    }
}

#[cfg(test)]
mod tests {
    use allfold_kernels::protocol::abi::{Dtype, Phase};

    use super::*;

    const ALL: [Algorithm; 6] = Algorithm::ALL;

    fn pattern(world: u32) -> Pattern {
        Pattern { dtype: Dtype::Bf16, world, call: 1 }
    }

    /// The elements of all outputs, `of(to, elem)` by its bits.
    fn outputs(pattern: Pattern, of: impl Fn(u32, usize) -> Vec<u8>) -> Vec<Finding> {
        let output = |to| (0..pattern.elems()).flat_map(|elem| of(to, elem)).collect();
        (0..pattern.world).map(|to| Finding::ended(output(to))).collect()
    }

    fn owner(pattern: Pattern, elem: usize) -> u32 {
        let pack = (elem / pattern.dtype.lanes()) as u64;
        let owns = |&rank: &u32| {
            let part = part(pattern.packs(), pattern.world, Rank(rank));
            (part.start..part.end).contains(&pack)
        };
        (0..pattern.world).find(owns).expect("parts cover all")
    }

    /// What comes out where the number of `from` is 0 for `to`: of what `to` adds up, and of what `from` has added up for it.
    fn lost(pattern: Pattern, algorithm: Algorithm, bad: &[(u32, u32)]) -> Vec<Finding> {
        let is_bad = |from, to| bad.contains(&(from, to));
        let adds = |to: u32, elem| {
            let known = (0..pattern.world).filter(|&from| !is_bad(from, to)).fold(0, |bits, from| bits | 1 << from);
            pattern.sum(elem) & known
        };
        outputs(pattern, |to, elem| {
            let owner = owner(pattern, elem);
            let value = match adds_up_itself(algorithm) || owner == to {
                true => adds(to, elem),
                false if is_bad(owner, to) => 0,
                false => adds(owner, elem),
            };
            pattern.word(value).collect()
        })
    }

    #[test]
    fn right_sums_are_right() {
        for (world, algorithm) in (2..=8).flat_map(|world| ALL.map(|algorithm| (world, algorithm))) {
            assert_eq!(judge(pattern(world), algorithm, &lost(pattern(world), algorithm, &[])), Verdict::Right);
        }
    }

    #[test]
    fn b92_numbers_that_are_lost_on_the_way_are_named_by_pair() {
        for (world, algorithm) in (2..=8).flat_map(|world| ALL.map(|algorithm| (world, algorithm))) {
            let pairs = (0..world).flat_map(|from| (0..world).map(move |to| (from, to))).filter(|(a, b)| a != b);
            let pairs: Vec<_> = pairs.collect();
            let mut sets: Vec<_> = pairs.iter().map(|&pair| vec![pair]).collect();
            // Two at once, from and to different ranks.
            sets.extend(pairs.iter().zip(pairs.iter().skip(world as usize)).map(|(&one, &other)| vec![one, other]));
            for bad in sets {
                let verdict = judge(pattern(world), algorithm, &lost(pattern(world), algorithm, &bad));
                let Verdict::Failed(Fault { pairs, symptom: Symptom::Wrong { elems } }) = verdict else {
                    panic!("{algorithm:?} over {world} ranks, {bad:?}: {verdict:?}");
                };
                assert_eq!(pairs, bad, "{algorithm:?} over {world} ranks");
                assert!(elems > 0);
            }
        }
    }

    #[test]
    fn what_is_no_sum_is_laid_to_all_that_it_may_come_from_and_to_one_where_there_is_but_one() {
        let garbled = |pattern: Pattern, algorithm| {
            let mut findings = lost(pattern, algorithm, &[]);
            findings[1].output.fill(0xff);
            match judge(pattern, algorithm, &findings) {
                Verdict::Failed(fault) => fault.pairs,
                other @ (Verdict::Right | Verdict::Left(_)) => panic!("{other:?}"),
            }
        };
        for algorithm in ALL {
            assert_eq!(garbled(pattern(2), algorithm), [(0, 1)]);
        }
        assert_eq!(garbled(pattern(3), Algorithm::OneShot), [(0, 1), (2, 1)]);
        // The sums of both others were right with them.
        assert_eq!(garbled(pattern(3), Algorithm::TwoShot), [(0, 1), (2, 1)]);
        // An output that is too short, as another version might say it.
        let mut findings = lost(pattern(2), Algorithm::OneShot, &[]);
        findings[0].output.pop();
        let verdict = judge(pattern(2), Algorithm::OneShot, &findings);
        let fault = Fault { pairs: vec![(1, 0)], symptom: Symptom::Wrong { elems: 1 } };
        assert_eq!(verdict, Verdict::Failed(fault));
    }

    fn stop(by: u32, phase: Phase, ranks: u8) -> Stop {
        Stop { phase, ranks: Ranks(ranks), ..Stop::outside(Why::TimedOut, Rank(by)) }
    }

    /// Each rank's missing and started, of a call that `stop` ended.
    fn ended<const W: usize>(stop: Stop, found: [(u8, u8); W]) -> Vec<Finding> {
        let of = |(missing, started)| Finding {
            stop: Some(stop),
            missing: Ranks(missing),
            started: Ranks(started),
            output: Vec::new(),
        };
        found.map(of).into()
    }

    fn pairs_of(algorithm: Algorithm, findings: &[Finding]) -> Vec<(u32, u32)> {
        let verdict = judge(pattern(findings.len() as u32), algorithm, findings);
        let Verdict::Failed(Fault { pairs, symptom: Symptom::Silent }) = verdict else { panic!("{verdict:?}") };
        pairs
    }

    #[test]
    fn b93_flags_that_did_not_come_are_named_and_not_who_waits_because_of_them() {
        // The flag of 0 does not come to 1; the others have all, and wait at the end for 1.
        let start = stop(1, Phase::Start, 0b001);
        let found = ended(start, [(0b010, 0b110), (0b001, 0b100), (0b010, 0b011)]);
        assert_eq!(pairs_of(Algorithm::OneShot, &found), [(0, 1)]);
        // Between 0 and 1 neither does, and 2 misses both at the end.
        let found = ended(start, [(0b010, 0b100), (0b001, 0b100), (0b011, 0b011)]);
        assert_eq!(pairs_of(Algorithm::TwoShot, &found), [(0, 1), (1, 0)]);
        // All have started, and the flag of 2 in the middle does not come to 0: 1 misses both, or one of them, at the end.
        let middle = stop(0, Phase::Middle, 0b100);
        for missing in [0b001, 0] {
            let found = ended(middle, [(0b100, 0b110), (missing, 0b101), (0, 0b011)]);
            assert_eq!(pairs_of(Algorithm::TwoShot, &found), [(2, 0)]);
        }
        // A rank that was never seen.
        let found = ended(start, [(0b010, 0b100), (0b101, 0), (0b010, 0b001)]);
        assert_eq!(pairs_of(Algorithm::OneShot, &found), [(0, 1), (1, 0), (1, 2), (2, 1)]);
    }

    #[test]
    fn b93_pushed_data_that_did_not_come_are_named() {
        let landing = stop(1, Phase::Landing, 0b001);
        let found = ended(landing, [(0b010, 0), (0b001, 0), (0, 0)]);
        assert_eq!(pairs_of(Algorithm::OneShotPush, &found), [(0, 1), (1, 0)]);
        // 1 cannot add up its part, so its sums come to nobody: 2, which nobody misses, may be a cause and is none.
        let found = ended(landing, [(0, 0), (0b001, 0), (0b010, 0)]);
        assert_eq!(pairs_of(Algorithm::TwoShotPush, &found), [(0, 1)]);
        // Nothing tells causes from what follows where all miss each other.
        let found = ended(landing, [(0b010, 0), (0b001, 0), (0b010, 0)]);
        assert_eq!(pairs_of(Algorithm::TwoShotPush, &found), [(0, 1), (1, 0), (1, 2)]);
    }

    #[test]
    fn calls_that_seem_to_differ_were_spoilt_on_the_way_and_who_is_gone_is_no_path() {
        let differs = Stop { ranks: Ranks(0b100), ..Stop::outside(Why::Differs, Rank(0)) };
        let verdict = judge(pattern(3), Algorithm::OneShot, &ended(differs, [(0, 0); 3]));
        let fault = Fault { pairs: vec![(2, 0)], symptom: Symptom::Wrong { elems: 0 } };
        assert_eq!(verdict, Verdict::Failed(fault));
        let gone = Stop { ranks: Ranks(0b100), ..Stop::outside(Why::Gone, Rank(0)) };
        assert_eq!(judge(pattern(3), Algorithm::OneShot, &ended(gone, [(0, 0); 3])), Verdict::Left(gone));
    }
}
