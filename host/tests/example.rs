//! The example of a process for each rank, started by `allfold launch` as users start it.

use std::path::PathBuf;
use std::process::Command;

/// Cargo builds the examples beside the tests: `deps/example-…` and `examples/processes`.
fn example() -> PathBuf {
    let this = std::env::current_exe().expect("this program");
    let built = this.ancestors().nth(2).expect("it is in a folder of the build's");
    built.join("examples").join("processes")
}

#[test]
fn each_rank_says_its_sums() {
    let program = example();
    if !program.exists() {
        return println!("SKIPPED: {} is not built: tests chosen by name do not build it", program.display());
    }
    for (world, first) in [(1, 1), (2, 3), (3, 6), (4, 10)] {
        let ran = Command::new(env!("CARGO_BIN_EXE_allfold"))
            .args(["launch", "-n", &world.to_string(), "--"])
            .arg(&program)
            .output()
            .expect("the program starts");
        assert_eq!(ran.status.code(), Some(0), "{ran:?}");
        let said = String::from_utf8_lossy(&ran.stdout);
        let mut said: Vec<_> = said.lines().collect();
        said.sort_unstable();
        let line = |rank| format!("[{rank}] rank {rank} of {world}: 1000 sums, the first {first}");
        assert_eq!(said, (0..world).map(line).collect::<Vec<_>>());
    }
}

#[test]
fn without_a_launcher_it_says_what_is_missing() {
    let program = example();
    if !program.exists() {
        return println!("SKIPPED: {} is not built: tests chosen by name do not build it", program.display());
    }
    let names = ["RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS"];
    let mut command = Command::new(program);
    for name in names {
        command.env_remove(name);
    }
    let ran = command.output().expect("the program starts");
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    assert!(String::from_utf8_lossy(&ran.stderr).contains("WORLD_SIZE"), "{ran:?}");
}
