//! What the programs here have in common: each is one target of `allfold::fuzzing`, which says what is asked. By hand:
//! `cargo +nightly fuzz run --fuzz-dir tests/fuzz TARGET`; all of them: `cargo xtask fuzz`.

use std::path::Path;

#[doc(hidden)]
pub use libfuzzer_sys;

/// Writes the seeds of `target` to where cargo-fuzz keeps its corpus, before that is read.
pub fn seed(target: &str) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    if let Err(error) = allfold::fuzzing::write_seeds(target, &corpus) {
        eprintln!("no seeds in {}: {error}", corpus.display());
    }
}

/// The program of a target.
#[macro_export]
macro_rules! target {
    ($target:literal) => {
        $crate::libfuzzer_sys::fuzz_target!(init: $crate::seed($target), |bytes: &[u8]| {
            allfold::fuzzing::check($target, bytes)
        });
    };
}
