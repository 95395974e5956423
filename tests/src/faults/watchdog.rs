//! An end to what does not end: a thread that ends the process, and says what it was doing.

use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process};

use super::Report;

/// What is done now: a number, the words for it, and since when.
type List = Mutex<Vec<(u64, String, Instant)>>;

/// What a process does, for whoever has to say it.
#[derive(Clone)]
pub struct Watchdog(Arc<List>);

/// The exit code of a process that was ended so.
pub const STUCK: i32 = 2;
/// So long what was done may be said, and then so long the process may end by itself: what is stuck may hold what is needed for that.
const LAST: Duration = Duration::from_secs(2);

impl Watchdog {
    /// Ends this process when `limit` has passed, while this one or a clone of it is there: with what it was doing then, and what `report`
    /// has so far. Ranks that are its children end with it.
    pub fn start(limit: Duration, report: Arc<Report>) -> Watchdog {
        let watchdog = Watchdog(Arc::default());
        let own = Arc::downgrade(&watchdog.0);
        std::thread::spawn(move || {
            std::thread::sleep(limit);
            if own.strong_count() > 0 {
                end(limit, own, report);
            }
        });
        watchdog
    }

    /// Does `work`, and can say `what` it is meanwhile.
    pub fn during<T>(&self, what: &str, work: impl FnOnce() -> T) -> T {
        let number = {
            let mut list = lock(&self.0);
            let number = list.last().map_or(0, |(number, ..)| number + 1);
            list.push((number, what.to_owned(), Instant::now()));
            number
        };
        let done = work();
        lock(&self.0).retain(|(other, ..)| *other != number);
        done
    }
}

fn lock(list: &List) -> std::sync::MutexGuard<'_, Vec<(u64, String, Instant)>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

fn end(limit: Duration, list: Weak<List>, report: Arc<Report>) {
    let says = std::thread::spawn(move || {
        let mut text = String::new();
        for (_, what, since) in list.upgrade().iter().flat_map(|list| lock(list).clone()) {
            text += &format!("STUCK after {limit:?}, for {:?} in: {what}\n", since.elapsed());
        }
        text += &format!("faults: not done after {limit:?}\n");
        // Nobody may be left to read it.
        let _ = std::io::stdout().write_all(text.as_bytes());
        let _ = std::io::stdout().write_all(report.lines().text.as_bytes());
    });
    let begun = Instant::now();
    while !says.is_finished() && begun.elapsed() < LAST {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::spawn(|| {
        std::thread::sleep(LAST);
        let _ = kill_process(getpid(), Signal::KILL);
    });
    std::process::exit(STUCK);
}
