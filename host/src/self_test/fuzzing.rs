//! What fuzzing asks of what ranks tell each other of a self-test. See `crate::fuzzing`.

use allfold_kernels::protocol::abi::{Algorithm, Dtype};

use super::finding::Finding;
use super::judge::{Verdict, judge};
use super::pattern::Pattern;
use crate::fuzzing::canonical;

/// What one of three ranks has found, whatever it is, comes to a verdict that names ranks of them alone, and none as its own peer.
pub(crate) fn finding(bytes: &[u8]) {
    canonical(bytes, Finding::decode, Finding::encode);
    let Some(found) = Finding::decode(bytes) else { return };
    for (dtype, algorithm) in Dtype::ALL.into_iter().cycle().zip(Algorithm::ALL) {
        let pattern = Pattern { dtype, world: 3, call: 0 };
        let right = right(pattern);
        match judge(pattern, algorithm, &[right.clone(), found.clone(), right.clone()]) {
            Verdict::Right => assert_eq!(found.output.get(..right.output.len()), Some(&right.output[..])),
            Verdict::Failed(fault) => {
                let named = |&(from, to): &(u32, u32)| from < 3 && to < 3 && from != to;
                assert!(fault.pairs.iter().all(named), "{fault:?}");
            }
            Verdict::Left(stop) => assert_eq!(found.stop, Some(stop)),
        }
    }
}

fn right(pattern: Pattern) -> Finding {
    Finding::ended((0..pattern.elems()).flat_map(|elem| pattern.word(pattern.sum(elem))).collect())
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let right = right(Pattern { dtype: Dtype::Bf16, world: 3, call: 0 });
    let mut wrong = right.clone();
    wrong.output.fill(0xff);
    vec![right.encode(), wrong.encode(), Finding::default().encode()]
}
