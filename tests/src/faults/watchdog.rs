//! An end to what does not end: a thread that ends the process, and says what it was doing.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Report;

/// What a process does, for whoever has to say it.
#[derive(Clone, Default)]
pub struct Watchdog(Arc<Mutex<Vec<(u64, String, Instant)>>>);

/// The exit code of a process that was ended so.
pub const STUCK: i32 = 2;

impl Watchdog {
    /// Ends this process when `limit` has passed, if this is still there: with what it was doing then, and what `report` has so far.
    pub fn start(limit: Duration, report: Arc<Report>) -> Watchdog {
        let watchdog = Watchdog::default();
        let own = Arc::downgrade(&watchdog.0);
        std::thread::spawn(move || {
            std::thread::sleep(limit);
            // Whoever has it no more is done.
            let Some(own) = own.upgrade().map(Watchdog) else { return };
            let mut text = report.lines().text + "\n";
            for (_, what, since) in own.list().iter() {
                text += &format!("STUCK after {limit:?}, for {:?} in: {what}\n", since.elapsed());
            }
            // Where nobody reads any more it ends all the same.
            let _ = writeln!(std::io::stdout(), "{text}faults: not done after {limit:?}");
            std::process::exit(STUCK);
        });
        watchdog
    }

    fn list(&self) -> std::sync::MutexGuard<'_, Vec<(u64, String, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `work`, and can say `what` it is meanwhile.
    pub fn during<T>(&self, what: &str, work: impl FnOnce() -> T) -> T {
        let number = {
            let mut list = self.list();
            let number = list.last().map_or(0, |(number, ..)| number + 1);
            list.push((number, what.to_owned(), Instant::now()));
            number
        };
        let done = work();
        self.list().retain(|(other, ..)| *other != number);
        done
    }
}
