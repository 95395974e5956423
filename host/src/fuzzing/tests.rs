//! Every target on its seeds, and on some thousand bytes that were made of them: what CI has time for.

use std::fs;
use std::path::PathBuf;

use super::*;

/// Bytes for each target.
const ROUNDS: usize = 5000;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz")
}

#[test]
fn readers_keep_their_promises_on_seeds_and_on_what_is_made_of_them() {
    std::thread::scope(|scope| {
        for target in &TARGETS {
            scope.spawn(move || {
                let mut known = (target.seeds)();
                known.iter().for_each(|seed| (target.check)(seed));
                assert!(!known.is_empty(), "{}", target.name);
                let mut random = Random(target.name.len() as u64);
                for _ in 0..ROUNDS {
                    let bytes = match random.below(4) {
                        // The start of one and the end of another.
                        0 => {
                            let [one, other] = [0, 1].map(|_| random.below(known.len()));
                            let [one, other] = [&known[one], &known[other]];
                            [&one[..random.below(one.len() + 1)], &other[random.below(other.len() + 1)..]].concat()
                        }
                        _ => {
                            let seed = random.below(known.len());
                            random.spoil(&known[seed])
                        }
                    };
                    (target.check)(&bytes);
                    // Some are spoiled again.
                    if random.below(16) == 0 && known.len() < 500 {
                        known.push(bytes);
                    }
                }
            });
        }
    });
}

/// Seeds that a reader takes are none that it refuses at the door.
#[test]
fn seeds_are_written_for_each_target() {
    let dir = std::env::temp_dir().join(format!("allfold-seeds-{}", std::process::id()));
    for target in &TARGETS {
        write_seeds(target.name, &dir.join(target.name)).expect("a folder of its own");
        let files = fs::read_dir(dir.join(target.name)).expect("it was made").count();
        assert_eq!(files, (target.seeds)().len());
    }
    fs::remove_dir_all(&dir).expect("it is there");
    check("none", b"of this name");
}

#[test]
fn each_target_has_a_program() {
    let Ok(manifest) = fs::read_to_string(folder().join("Cargo.toml")) else {
        return println!("SKIPPED: the repository's tests/fuzz is not here");
    };
    let listed: Vec<_> = manifest.lines().filter_map(|line| line.strip_prefix("path = \"src/bin/")).collect();
    let expected: Vec<_> = TARGETS.iter().map(|target| format!("{}.rs\"", target.name)).collect();
    assert_eq!(listed, expected);
    for target in &TARGETS {
        let program = folder().join(format!("src/bin/{}.rs", target.name));
        let text = fs::read_to_string(&program).expect("there is one");
        assert!(text.contains(&format!("target!(\"{}\");", target.name)), "{}", program.display());
    }
}
