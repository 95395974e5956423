//! The ranks of a test: this program, started once more by `mpirun`.

use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs};

use mpi::topology::SimpleCommunicator;
use mpi::traits::Communicator;

/// Set where this program is a rank.
const RANK_OF_TEST: &str = "ALLFOLD_RANK_OF_TEST";

/// What `program` says on `world` ranks, and that it ends well.
pub fn mpirun(world: u32, program: &[&str]) -> Output {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Two that start at once trip over each other where they share a folder.
    let name = format!("allfold-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let folder = env::temp_dir().join(name);
    fs::create_dir_all(&folder).expect("a folder of its own");
    let mut command = Command::new(env::var_os("MPIRUN").unwrap_or_else(|| "mpirun".into()));
    command.args(["--timeout", "60", "-n", &world.to_string()]).args(program).stdin(Stdio::null());
    let ran = command.env(RANK_OF_TEST, "").env("OMPI_MCA_orte_tmpdir_base", &folder).output();
    fs::remove_dir_all(folder).expect("it is ours");
    let ran = ran.expect("mpirun starts");
    assert_eq!(ran.status.code(), Some(0), "{world} ranks:\n{}", text(&ran.stdout) + &text(&ran.stderr));
    ran
}

/// Bytes as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `work` on each rank of 2, 3 and 4, and `then` what it has left, when MPI has ended. The test of this name, which
/// calls it, is also the program that they run.
pub fn on_ranks_then<T>(test: &str, work: impl Fn(&SimpleCommunicator) -> T, then: impl Fn(T)) {
    if env::var_os(RANK_OF_TEST).is_none() {
        let this = env::current_exe().expect("this program");
        for world in 2..=4 {
            let ran = mpirun(world, &[this.to_str().expect("a name"), "--exact", test, "--nocapture"]);
            let out = text(&ran.stdout);
            // Not a line of its own: something of another rank may be before it.
            let done = (0..world).all(|rank| out.contains(&format!("rank {rank} of {world} is done\n")));
            assert!(done, "{out}");
        }
        return;
    }
    let (universe, _) = mpi::initialize_with_threading(mpi::Threading::Funneled).expect("MPI begins");
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let left = work(&world);
    drop(universe);
    then(left);
    println!("rank {rank} of {size} is done");
}

/// [`on_ranks_then`] with nothing to do then.
pub fn on_ranks(test: &str, work: impl Fn(&SimpleCommunicator)) {
    on_ranks_then(test, work, |()| ());
}
