//! A progress bar for what takes longer than two seconds, and only on a terminal.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const PATIENCE: Duration = Duration::from_secs(2);

/// A bar on standard error that appears after two seconds. It is gone when dropped.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar of `steps` steps.
    pub fn new(steps: u64) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {bar:30} {pos}/{len} {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        if std::io::stderr().is_terminal() {
            let later = bar.downgrade();
            std::thread::spawn(move || {
                std::thread::sleep(PATIENCE);
                // Nobody to show it to when the work is done by then.
                if let Some(bar) = later.upgrade().filter(|bar| !bar.is_finished()) {
                    bar.set_draw_target(ProgressDrawTarget::stderr());
                    bar.enable_steady_tick(Duration::from_millis(120));
                }
            });
        }
        Progress(bar)
    }

    /// What is being done now.
    pub fn doing(&self, what: String) {
        self.0.set_message(what);
    }

    /// So many steps are done.
    pub fn at(&self, steps: u64) {
        self.0.set_position(steps);
    }

    /// One step more is done.
    pub fn step(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
