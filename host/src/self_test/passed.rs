//! What has passed the self-test already: in this process, and on this machine since it was booted, by a small file for each set of
//! ranks in the user's cache. A file that cannot be read, or says anything else than what would be written now, counts for nothing.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::hint::On;
use super::run::Trial;
use crate::hash::fnv1a;
use crate::processes::identity;

/// Sets of ranks that have passed in this process.
static PASSED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn in_process() -> MutexGuard<'static, BTreeSet<String>> {
    // No code that holds the lock can panic half-way through a change.
    PASSED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is tested: how many ranks, on what, by which calls: dtype and protocol make other kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    text: String,
    /// Whether the machine's file is asked: not of CPU ranks in one process, which are sooner tested than looked up.
    on_disk: bool,
}

impl Subject {
    pub(crate) fn of(on: &On, trials: &[Trial]) -> Subject {
        let what = if on.gpus.is_empty() { "CPU ranks" } else { "GPUs" };
        let whose = if on.processes { "several processes" } else { "one process" };
        let call = |trial: &Trial| {
            let (plan, pattern) = (&trial.plan, &trial.pattern);
            let (algorithm, input, dtype) = (plan.algorithm.name(), plan.input.name(), pattern.dtype.name());
            format!("{algorithm} {input} {dtype} {:#x}", plan.protocol.encode())
        };
        let world = trials.first().map_or(0, |trial| trial.pattern.world);
        let calls = trials.iter().map(call).collect::<Vec<_>>().join(", ");
        let text = format!("what\t{world} {what} of {whose}\nGPUs\t{}\ncalls\t{calls}\n", on.gpus.join(" "));
        Subject { text, on_disk: on.processes || !on.gpus.is_empty() }
    }

    /// Whether it has passed in this process, or on this machine.
    pub(crate) fn has_passed(&self) -> bool {
        if in_process().contains(&self.text) {
            return true;
        }
        let passed = self.on_disk()
            && self.file().is_some_and(|(path, text)| read(&path).is_some_and(|bytes| says(&bytes, &text)));
        if passed {
            in_process().insert(self.text.clone());
        }
        passed
    }

    /// From here on it has passed. Where that cannot be written, it is tested again in the next process.
    pub(crate) fn pass(&self) {
        in_process().insert(self.text.clone());
        if let (true, Some((path, text))) = (self.on_disk(), self.file())
            && let Err(error) = write(&path, &text)
        {
            tracing::debug!(%error, path = %path.display(), "that the self-test has passed is not kept");
        }
    }

    /// From here on it has not.
    pub(crate) fn fail(&self) {
        in_process().remove(&self.text);
        if let (true, Some((path, _))) = (self.on_disk(), self.file()) {
            // There is none, or it cannot be taken away: whoever has it tests nothing, until the next boot.
            let _ = fs::remove_file(path);
        }
    }

    fn on_disk(&self) -> bool {
        // Tests of this crate's parts leave no files.
        self.on_disk && !cfg!(any(test, fuzzing))
    }

    /// The file and what it says of a pass.
    fn file(&self) -> Option<(PathBuf, String)> {
        let name = format!("self-test-{:016x}", fnv1a(self.text.as_bytes()));
        Some((folder()?.join(name), format!("{}{}", machine()?, self.text)))
    }
}

/// The user's cache, by the XDG base directory specification: a path that is not absolute is none.
fn folder() -> Option<PathBuf> {
    let absolute = |name, below: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then(|| path.join(below))
    };
    absolute("XDG_CACHE_HOME", "allfold").or_else(|| absolute("HOME", ".cache/allfold"))
}

/// This machine as it is since its boot, as far as this process's container shows it, with its driver, and this version.
fn machine() -> Option<String> {
    let mut text = format!("# allfold self-test: passed\nthe version of allfold\t{}\n", env!("CARGO_PKG_VERSION"));
    let mounts = fs::read_link("/proc/self/ns/mnt").map(|link| link.to_string_lossy().into_owned()).unwrap_or_default();
    let driver = fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    let driver = driver.lines().next().unwrap_or("none").to_owned();
    for (what, value) in identity().ok()?.into_iter().chain([("the mount namespace", mounts), ("the driver", driver)]) {
        text += &format!("{what}\t{value}\n");
    }
    Some(text)
}

/// More bytes than a file has that says anything.
const MOST_BYTES: u64 = 64 << 10;

fn read(path: &Path) -> Option<Vec<u8>> {
    // To open anything else, such as a pipe, might take for ever.
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Whether a file of these bytes says that what `text` says has passed: that, and nothing else.
fn says(bytes: &[u8], text: &str) -> bool {
    bytes == text.as_bytes()
}

/// Writes the whole file or none, whoever else does so.
fn write(path: &Path, text: &str) -> io::Result<()> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let folder = path.parent().ok_or(io::ErrorKind::NotFound)?;
    fs::create_dir_all(folder)?;
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let new = folder.join(format!(".new-{}-{number}", std::process::id()));
    let written = File::create_new(&new).and_then(|mut file| file.write_all(text.as_bytes()));
    let moved = written.and_then(|()| fs::rename(&new, path));
    if moved.is_err() {
        // It says nothing, and is in nobody's way.
        let _ = fs::remove_file(&new);
    }
    moved
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use allfold_kernels::protocol::abi::{Algorithm, Dtype};
    use allfold_kernels::protocol::preset::Preset;

    use super::super::run::calls;
    use super::*;
    use crate::options::Options;
    use crate::plan::Limits;
    use crate::setup::prepare;
    use crate::tuning::CPU_ROWS;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("allfold-passed-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("a folder of its own");
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn passed(path: &Path, text: &str) -> bool {
        read(path).is_some_and(|bytes| says(&bytes, text))
    }

    #[test]
    fn what_has_passed_is_read_again_and_nothing_else_is_taken_for_it() {
        let folder = Folder::new("round");
        // Folders that are not there yet.
        let path = folder.0.join("cache/allfold/self-test-1");
        let on = On { gpus: vec!["2a00".to_owned(), "2b00".to_owned()], processes: true };
        let subject = Subject::of(&on, &[]);
        let text = format!("{}{}", machine().expect("there is /proc"), subject.text);
        assert!(!passed(&path, &text), "there is no file");
        for _ in 0..2 {
            write(&path, &text).expect("a file");
            assert!(passed(&path, &text));
        }
        assert_eq!(
            fs::read_dir(path.parent().expect("a folder")).expect("it is there").count(),
            1,
            "nothing else is left"
        );
        // Another boot, another driver, another container, other GPUs.
        for line in text.lines() {
            let other = text.replace(line, &format!("{line} "));
            assert!(!passed(&path, &other), "{line}");
        }
        for bytes in [&b""[..], &text.as_bytes()[1..], &text.as_bytes()[..text.len() - 1], &vec![0xff; 1 << 20]] {
            fs::write(&path, bytes).expect("a file");
            assert!(!passed(&path, &text));
        }
        // What is no file.
        fs::remove_file(&path).expect("it is there");
        fs::create_dir(&path).expect("a folder");
        assert!(!passed(&path, &text));
        write(&path, &text).expect_err("a folder is in its place");
        assert_eq!(fs::read_dir(path.parent().expect("a folder")).expect("it is there").count(), 1);
        fs::remove_dir(&path).expect("it is there");
        let pipe = std::process::Command::new("mkfifo").arg(&path).status().expect("it is part of every system");
        assert!(pipe.success() && !passed(&path, &text), "nobody waits at a pipe");
    }

    #[test]
    fn where_nothing_can_be_written_nothing_is_and_nobody_minds() {
        let folder = Folder::new("closed");
        fs::write(folder.0.join("file"), "").expect("a file");
        write(&folder.0.join("file/allfold/self-test-1"), "text").expect_err("a file is no folder");
        let closed = folder.0.join("closed");
        fs::create_dir(&closed).expect("a folder");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).expect("it is this user's");
        if rustix::process::geteuid().is_root() {
            return println!("SKIPPED: nothing is closed to this user");
        }
        write(&closed.join("self-test-1"), "text").expect_err("it may not be written");
    }

    #[test]
    fn subjects_differ_by_all_that_a_path_depends_on() {
        let on = |gpus: &[&str], processes| On { gpus: gpus.iter().map(|&gpu| gpu.to_owned()).collect(), processes };
        let all =
            [on(&[], false), on(&[], true), on(&["a", "b"], false), on(&["b", "a"], false), on(&["a", "b"], true)];
        for (number, one) in all.iter().enumerate() {
            for other in &all[number + 1..] {
                assert_ne!(Subject::of(one, &[]), Subject::of(other, &[]));
            }
        }
        assert_eq!(all.map(|on| Subject::of(&on, &[]).on_disk), [false, true, true, true, true]);
        let of = |world, options: &Options| {
            let (.., limits) = prepare(world, options, Options::CPU_LANDING_BYTES).expect("possible");
            let limits = Limits { max_blocks: 8, max_threads: [1; Algorithm::ALL.len()], ..limits };
            let calls = calls(options, &limits, CPU_ROWS);
            assert!(!calls.is_empty());
            Subject::of(&on(&[], false), &calls)
        };
        let usual = Options::default();
        let bf16 = Options { dtypes: vec![Dtype::Bf16], ..usual.clone() };
        let other = Options { protocol: Preset::Minimal, algorithms: vec![Algorithm::TwoShot], ..usual.clone() };
        let own = Options { protocol: Preset::Allfold, ..other.clone() };
        assert_ne!(of(2, &usual), of(3, &usual), "two ranks say nothing of a third");
        assert_ne!(of(2, &usual), of(2, &bf16), "other kernels");
        assert_ne!(of(2, &own), of(2, &other), "another protocol");
        let mut turned = usual.clone();
        turned.dtypes.reverse();
        assert_eq!(of(2, &usual), of(2, &turned), "each rank may name what it declares in its own order");
    }

    #[test]
    fn a_subject_has_passed_from_its_pass_until_it_fails() {
        // Of CPU ranks in one process: no file of this user's is touched.
        let subject = Subject { text: "a subject of this test's own".to_owned(), on_disk: false };
        assert!(!subject.has_passed());
        subject.pass();
        assert!(subject.has_passed());
        subject.fail();
        assert!(!subject.has_passed());
    }
}
