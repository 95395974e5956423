//! Where ranks that are processes of their own meet again, and what one of them has still to tell the others.

use std::fmt::Display;
use std::time::Duration;

use crate::processes::Meeting;
use crate::rendezvous::Line;

/// How long a rank that is dropped waits for the others to come and hear why a capture of its failed.
const LAST_WORD: Duration = Duration::from_secs(1);

/// The line of a communicator.
pub(super) struct OwnLine {
    line: Line,
    /// Why a capture failed that the others may wait for.
    failed: Option<String>,
}

impl OwnLine {
    pub(super) fn new(line: Line) -> OwnLine {
        OwnLine { line, failed: None }
    }

    pub(super) fn line(&self) -> &Line {
        &self.line
    }

    /// A capture that the others have made, or will, has failed here, or has not.
    pub(super) fn captured<T>(&mut self, captured: &Result<T, impl Display>) {
        self.failed = captured.as_ref().err().map(|error| format!("a capture: {error}"));
    }

    /// Why the last capture failed, if it has and the others were not told. Whoever asks tells them, if they wait for it.
    pub(super) fn failed(&mut self) -> Option<String> {
        self.failed.take()
    }
}

impl Drop for OwnLine {
    /// Without a word the others would only see that this rank is gone.
    fn drop(&mut self) {
        if let (Some(why), Ok(meeting)) = (self.failed.take(), Meeting::new(&self.line, LAST_WORD)) {
            let error = meeting.fail(&why);
            tracing::debug!(%error, "a rank leaves after a capture that failed");
        }
    }
}
