//! Ranks that are processes: a program, or a test, runs itself once more for each rank, and they meet at a socket in a folder of
//! their own.

use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File};
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use allfold::rendezvous::{Rendezvous, RendezvousError, Secret, Unix};
use rustix::process::{Signal, set_parent_process_death_signal};

/// Tells a process that it is a rank, of what, and where it meets the others.
const SEAT: &str = "ALLFOLD_TEST_SEAT";
/// How the folders are named where ranks meet.
const FOLDER: &str = "allfold-meet-";
/// After so long a test is stuck.
pub const LIMIT: Duration = Duration::from_secs(120);
/// The signal that ends a process at once.
const KILL: i32 = 9;

/// Which run it is: of how many ranks, and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case(pub u32, pub u32);

/// A rank that has not met the others yet.
pub struct Guest {
    /// Which it is.
    pub rank: u32,
    /// Of how many.
    pub world: u32,
    secret: Secret,
    folder: PathBuf,
}

impl Guest {
    /// This process's place in a run, if it is a rank of one.
    ///
    /// # Panics
    /// When it was started as a rank by something else than [`run`].
    pub fn own() -> Option<(Case, Guest)> {
        let seat = std::env::var(SEAT).ok()?;
        let words: Vec<_> = seat.splitn(5, ' ').collect();
        let [world, number, rank, secret, folder] = words[..] else { panic!("{seat}") };
        let of = |word: &str| word.parse().expect("a number");
        let (case, folder) = (Case(of(world), of(number)), PathBuf::from(folder));
        Some((case, Guest { rank: of(rank), world: case.0, secret: Secret::new(secret), folder }))
    }

    /// Meets the others.
    ///
    /// # Errors
    /// They do not come until `deadline`.
    pub fn join(&self, deadline: Instant) -> Result<Unix, RendezvousError> {
        self.join_at("socket", deadline)
    }

    /// Meets the others once more, at a socket of another name.
    ///
    /// # Errors
    /// As [`Guest::join`].
    pub fn join_at(&self, name: &str, deadline: Instant) -> Result<Unix, RendezvousError> {
        Unix::join(self.folder.join(name), self.rank, self.world, &self.secret, deadline)
    }

    /// Meets the others, who have met when this returns.
    ///
    /// # Errors
    /// As [`Guest::join`].
    pub fn join_all(&self, deadline: Instant) -> Result<Unix, RendezvousError> {
        let seat = self.join(deadline)?;
        // After it rank 0 has all that it needs to serve the others.
        seat.barrier(deadline)?;
        Ok(seat)
    }
}

/// The words of all ranks, with all the time that a test has.
///
/// # Panics
/// When not all come.
pub fn tell(seat: &dyn Rendezvous, word: &str) -> Vec<String> {
    let words = seat.all_gather(word.as_bytes(), Instant::now() + LIMIT).expect("all ranks come");
    words.into_iter().map(|word| String::from_utf8(word).expect("words")).collect()
}

/// [`on`] for all ranks, which have met.
///
/// # Panics
/// As [`on`].
pub fn on_all(test: &str, case: Case, body: impl FnOnce(&Unix)) {
    on_all_but(test, case, None, body);
}

/// [`on_all`], where the process of one rank is killed on the way.
///
/// # Panics
/// As [`on`].
pub fn on_all_but(test: &str, case: Case, killed: Option<u32>, body: impl FnOnce(&Unix)) {
    in_processes(test, case, &(0..case.0).collect::<Vec<_>>(), killed, None, |guest| {
        body(&guest.join_all(Instant::now() + LIMIT).expect("all ranks come"));
    });
}

/// [`on_all`], where the user of each rank has a cache, of the rank's name, in the folder `caches`. Otherwise all have one
/// that is empty at first.
///
/// # Panics
/// As [`on`].
pub fn on_all_with_caches(test: &str, case: Case, caches: &Path, body: impl FnOnce(&Unix)) {
    in_processes(test, case, &(0..case.0).collect::<Vec<_>>(), None, Some(caches), |guest| {
        body(&guest.join_all(Instant::now() + LIMIT).expect("all ranks come"));
    });
}

/// Whether this process is none of the ranks, but the test that starts them.
pub fn starts_ranks() -> bool {
    std::env::var_os(SEAT).is_none()
}

/// Runs `body` in a process for each of `ranks`, of the world of `case`. `test` is the name of the test that calls this, and
/// each rank another run of it: what a test does beside this it does in each.
///
/// # Panics
/// When a process fails, or does not end.
pub fn on(test: &str, case: Case, ranks: &[u32], body: impl FnOnce(&Guest)) {
    in_processes(test, case, ranks, None, None, body);
}

fn in_processes(
    test: &str,
    case: Case,
    ranks: &[u32],
    killed: Option<u32>,
    caches: Option<&Path>,
    body: impl FnOnce(&Guest),
) {
    if let Some((own, guest)) = Guest::own() {
        if own == case {
            File::create(guest.folder.join(guest.rank.to_string())).expect("the folder is there");
            body(&guest);
            std::process::exit(0);
        }
        return;
    }
    let folder = Folder::new();
    let arguments = [test, "--exact", "--nocapture", "--test-threads=1"];
    let Ended { failures, .. } = run_in(&folder, &arguments, case, ranks, (killed, caches), LIMIT);
    assert!(failures.is_empty(), "{failures}");
    // A test of another name runs nothing, and well.
    for rank in ranks {
        assert!(folder.0.join(rank.to_string()).exists(), "rank {rank} has not run {test}");
    }
}

/// How processes ended.
pub struct Ended {
    /// What each said, by rank.
    pub said: Vec<String>,
    /// Those that did not end as they should, with what they said; empty: there are none.
    pub failures: String,
}

/// Runs this program with `arguments` once for each rank of `case`; there [`Guest::own`] says which it is. `killed` is killed on the
/// way, and all others end well within `limit`.
///
/// # Panics
/// When no process can be started.
pub fn run(arguments: &[&str], case: Case, killed: Option<u32>, limit: Duration) -> Ended {
    run_in(&Folder::new(), arguments, case, &(0..case.0).collect::<Vec<_>>(), (killed, None), limit)
}

fn run_in(
    folder: &Folder,
    arguments: &[&str],
    case: Case,
    ranks: &[u32],
    (killed, caches): (Option<u32>, Option<&Path>),
    limit: Duration,
) -> Ended {
    let Case(world, number) = case;
    let secret = secret();
    let seat = |rank: u32| {
        let cache = caches.map_or(folder.0.join("cache"), |caches| caches.join(rank.to_string()));
        (rank, start(arguments, &format!("{world} {number} {rank} {secret} {}", folder.0.display()), &cache))
    };
    let mut children: Vec<_> = ranks.iter().copied().map(seat).collect();
    let begun = Instant::now();
    let mut ended = Ended { said: Vec::new(), failures: String::new() };
    for (rank, (child, pipes)) in &mut children {
        let status = loop {
            match child.try_wait().expect("it is a child") {
                Some(status) => break status,
                None if begun.elapsed() > limit => {
                    child.kill().expect("it runs");
                    break child.wait().expect("it was killed");
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        let said: String = pipes.drain(..).map(|pipe| pipe.join().expect("it only reads")).collect();
        let right = if killed == Some(*rank) { status.signal() == Some(KILL) } else { status.success() };
        if !right {
            let _ = writeln!(ended.failures, "rank {rank} of {case:?}: {status}\n{said}");
        }
        ended.said.push(said);
    }
    ended
}

/// The process, and what it says: read as it comes, or the process would stand still.
fn start(arguments: &[&str], seat: &str, cache: &Path) -> (Child, Vec<JoinHandle<String>>) {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    // Whatever ends this program ends its ranks.
    // SAFETY: a system call, which takes no lock and asks for no memory.
    unsafe { child.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?)) };
    let mut child = child
        .args(arguments)
        .env(SEAT, seat)
        .env("XDG_CACHE_HOME", cache)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("one more process");
    let pipes: [Option<Box<dyn Read + Send>>; 2] =
        [child.stdout.take().map(|pipe| Box::new(pipe) as _), child.stderr.take().map(|pipe| Box::new(pipe) as _)];
    let read = |mut pipe: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut said = Vec::new();
            // A pipe that breaks has ended.
            let _ = pipe.read_to_end(&mut said);
            String::from_utf8_lossy(&said).into_owned()
        })
    };
    (child, pipes.into_iter().flatten().map(read).collect())
}

/// A random word.
fn secret() -> String {
    let mut bytes = [0; 16];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).expect("random numbers");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A folder of this user's alone, which goes when this does.
pub struct Folder(pub PathBuf);

impl Folder {
    /// Empty.
    ///
    /// # Panics
    /// When it cannot be made.
    #[expect(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> Folder {
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("{FOLDER}{}-{number}-{}", std::process::id(), &secret()[..8]));
        DirBuilder::new().mode(0o700).create(&path).expect("a folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left of it is no failure of the test.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether this is the name of a socket at which ranks meet.
pub fn is_meeting(name: &str) -> bool {
    Path::new(name).parent().and_then(Path::file_name).is_some_and(|f| f.to_string_lossy().starts_with(FOLDER))
}
