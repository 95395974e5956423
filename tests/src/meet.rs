//! Ranks that are processes: a test runs itself once more for each rank, and they meet at a socket in a folder of their own.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File};
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use allfold::rendezvous::{Rendezvous, RendezvousError, Secret, Unix};

pub mod attempt;
pub mod held;

/// Tells a process that it is a rank, of what, and where it meets the others.
const SEAT: &str = "ALLFOLD_TEST_SEAT";
/// How the folders are named where ranks meet.
const FOLDER: &str = "allfold-meet-";
/// After so long a test is stuck.
const LIMIT: Duration = Duration::from_secs(120);
/// The signal that ends a process at once.
const KILL: i32 = 9;

/// Which run of a test's it is: of how many ranks, and which of those.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case(pub u32, pub u32);

/// A rank that has not met the others yet.
pub struct Guest {
    pub rank: u32,
    pub world: u32,
    secret: Secret,
    folder: PathBuf,
}

impl Guest {
    /// Meets the others.
    pub fn join(&self, deadline: Instant) -> Result<Unix, RendezvousError> {
        Unix::join(self.folder.join("socket"), self.rank, self.world, &self.secret, deadline)
    }
}

/// The words of all ranks, with all the time that a test has.
pub fn tell(seat: &dyn Rendezvous, word: &str) -> Vec<String> {
    let words = seat.all_gather(word.as_bytes(), Instant::now() + LIMIT).expect("all ranks come");
    words.into_iter().map(|word| String::from_utf8(word).expect("words")).collect()
}

/// [`on`] for all ranks, which have met.
pub fn on_all(test: &str, case: Case, body: impl FnOnce(&Unix)) {
    on_all_but(test, case, None, body);
}

/// [`on_all`], where the process of one rank is killed on the way.
pub fn on_all_but(test: &str, case: Case, killed: Option<u32>, body: impl FnOnce(&Unix)) {
    in_processes(test, case, &(0..case.0).collect::<Vec<_>>(), killed, |guest| {
        let seat = guest.join(Instant::now() + LIMIT).expect("all ranks come");
        // After it rank 0 has all that it needs to serve the others.
        seat.barrier(Instant::now() + LIMIT).expect("all ranks come");
        body(&seat);
    });
}

/// Runs `body` in a process for each of `ranks`, of the world of `case`. `test` is the name of the test that calls this, and
/// each rank another run of it: what a test does beside this it does in each.
pub fn on(test: &str, case: Case, ranks: &[u32], body: impl FnOnce(&Guest)) {
    in_processes(test, case, ranks, None, body);
}

fn in_processes(test: &str, case: Case, ranks: &[u32], killed: Option<u32>, body: impl FnOnce(&Guest)) {
    let Case(world, number) = case;
    if let Ok(seat) = std::env::var(SEAT) {
        let words: Vec<_> = seat.splitn(5, ' ').collect();
        let [of, numbered, rank, secret, folder] = words[..] else { panic!("{seat}") };
        if (of, numbered) == (&world.to_string(), &number.to_string()) {
            let folder = PathBuf::from(folder);
            File::create(folder.join(rank)).expect("the folder is there");
            let rank = rank.parse().expect("a rank");
            body(&Guest { rank, world, secret: Secret::new(secret), folder });
            std::process::exit(0);
        }
        return;
    }
    let folder = Folder::new();
    let secret = secret();
    let seat = |rank: u32| (rank, start(test, &format!("{world} {number} {rank} {secret} {}", folder.0.display())));
    let mut children: Vec<_> = ranks.iter().copied().map(seat).collect();
    let begun = Instant::now();
    let mut failures = String::new();
    for (rank, (child, said)) in &mut children {
        let status = loop {
            match child.try_wait().expect("it is a child") {
                Some(status) => break status,
                None if begun.elapsed() > LIMIT => {
                    child.kill().expect("it runs");
                    break child.wait().expect("it was killed");
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        let right = if killed == Some(*rank) { status.signal() == Some(KILL) } else { status.success() };
        if !right {
            let _ = writeln!(failures, "rank {rank} of {case:?}: {status}");
            said.drain(..).for_each(|said| failures += &said.join().expect("it only reads"));
        }
    }
    assert!(failures.is_empty(), "{failures}");
    // A test of another name runs nothing, and well.
    for rank in ranks {
        assert!(folder.0.join(rank.to_string()).exists(), "rank {rank} has not run {test}");
    }
}

/// The process, and what it says: read as it comes, or the process would stand still.
fn start(test: &str, seat: &str) -> (Child, Vec<JoinHandle<String>>) {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(SEAT, seat)
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
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
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
fn is_meeting(name: &str) -> bool {
    Path::new(name).parent().and_then(Path::file_name).is_some_and(|f| f.to_string_lossy().starts_with(FOLDER))
}
