//! What a process holds while it has communicators, and holds no more when they are gone.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use super::is_meeting;

/// What this process has open and mapped for ranks, and the threads of CPU ranks.
///
/// Without the connections that rank 0 of a rendezvous serves, and their threads: those end when the rank at the other end does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    descriptors: usize,
    mappings: usize,
    threads: usize,
}

impl Held {
    /// Now; threads that were joined may be listed for a moment still.
    pub fn now() -> Held {
        let text = |path: &str| fs::read_to_string(path).expect("/proc");
        let list = |path: &str| fs::read_dir(path).expect("/proc").flatten().collect::<Vec<_>>();
        let named = |path: std::path::PathBuf| fs::read_to_string(path.join("comm")).unwrap_or_default();
        // Number, six columns of no interest here, and the name, if any.
        let sockets = text("/proc/net/unix");
        let fields = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let meeting: BTreeSet<_> = fields
            .filter(|fields| fields.get(7).is_some_and(|name| is_meeting(name)))
            .map(|fields| format!("socket:[{}]", fields[6]))
            .collect();
        let is_of_meeting =
            |entry: &fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|to| meeting.contains(&*to.to_string_lossy()));
        let is_rank = |name: &String| name.starts_with("allfold") && !name.starts_with("allfold hub");
        Held {
            descriptors: list("/proc/self/fd").iter().filter(|entry| !is_of_meeting(entry)).count(),
            mappings: text("/proc/self/maps").lines().filter(|line| line.contains("memfd:allfold")).count(),
            threads: list("/proc/self/task").iter().map(|task| named(task.path())).filter(is_rank).count(),
        }
    }

    /// What it is when nothing has come or gone for a while: whoever met before may still be closing something.
    pub fn settled() -> Held {
        let (mut held, mut same) = (Held::now(), 0);
        while same < 10 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let now = Held::now();
            same = if now == held { same + 1 } else { 0 };
            held = now;
        }
        held
    }

    /// Whether it is no more than `before`. It may be less: of ranks that have ended meanwhile, connections and what watches them are gone.
    fn is_within(&self, before: &Held) -> bool {
        self.descriptors <= before.descriptors && self.mappings <= before.mappings && self.threads <= before.threads
    }

    /// Waits for threads that are ending, then compares.
    pub fn check(&self, what: &str) {
        let end = Instant::now() + Duration::from_secs(5);
        while !Held::now().is_within(self) {
            assert!(Instant::now() < end, "{what}: {:?}, {self:?} before", Held::now());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
