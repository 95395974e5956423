//! What fuzzing asks of what ranks tell each other of a self-test, and of the file that says that one has passed. See
//! `crate::fuzzing`.

use allfold_kernels::protocol::abi::{Algorithm, Dtype};

use super::finding::Finding;
use super::judge::{Verdict, judge};
use super::passed::says;
use super::pattern::Pattern;
use crate::fuzzing::canonical;

/// What a file says of a pass.
const PASSED: &str =
    "# allfold self-test: passed\nthe version of allfold\t0.1.0\nwhat\tGPUs of one process\nGPUs\t2a00 2b00\n";

/// What one of three ranks has found, whatever it is, comes to a verdict that names ranks of them alone; and no file but that of a
/// pass is taken for it.
pub(crate) fn finding(bytes: &[u8]) {
    // Whoever reads it is content with no less than all of it.
    assert!(!says(bytes, PASSED) || bytes.len() == PASSED.len() && bytes.ends_with(b"2b00\n"));
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
    vec![right.encode(), wrong.encode(), Finding::default().encode(), PASSED.as_bytes().to_vec()]
}
