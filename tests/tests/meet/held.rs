//! What a process holds while it has communicators, and holds no more when they are gone.

use std::time::{Duration, Instant};

/// What this process has open and mapped for ranks, and the threads of CPU ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    descriptors: usize,
    mappings: usize,
    threads: usize,
}

impl Held {
    /// Now; threads that were joined may be listed for a moment still.
    pub fn now() -> Held {
        let list = |path: &str| std::fs::read_dir(path).expect("/proc").flatten().collect::<Vec<_>>();
        let named = |path: std::path::PathBuf| std::fs::read_to_string(path.join("comm")).unwrap_or_default();
        let count = |path: &str, what: &str| {
            std::fs::read_to_string(path).expect("/proc").lines().filter(|line| line.contains(what)).count()
        };
        Held {
            descriptors: list("/proc/self/fd").len(),
            mappings: count("/proc/self/maps", "memfd:allfold"),
            threads: list("/proc/self/task").iter().filter(|task| named(task.path()).starts_with("allfold")).count(),
        }
    }

    /// Waits for threads that are ending, then compares.
    pub fn check(&self, what: &str) {
        let end = Instant::now() + Duration::from_secs(5);
        while Held::now() != *self {
            assert!(Instant::now() < end, "{what}: {:?}, {self:?} before", Held::now());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
