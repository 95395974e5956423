//! The self-test of a new communicator: whether it is made, and what it is made on.

use std::time::{Duration, Instant};

use super::{Backend, Communicator, of_backend};
use crate::error::Result;
use crate::options::SelfTest;
use crate::processes::Meeting;
use crate::self_test::{On, Subject, Trial, calls, run};
use crate::spans;

/// What there is to test.
pub(super) struct Untested {
    on: On,
    trials: Vec<Trial>,
    subject: Subject,
    /// Whether this process knows no better.
    wanted: bool,
}

/// The word for a self-test that need not be.
const NOT: &[u8] = &[0];

impl Untested {
    /// What a rank tells the others of it.
    pub(super) fn word(untested: Option<&Untested>) -> Vec<u8> {
        match untested {
            Some(untested) if untested.wanted => vec![1],
            Some(_) | None => NOT.to_vec(),
        }
    }
}

impl Communicator {
    /// How long the self-test took when this communicator was made; `None`: there was none, see [`SelfTest`].
    pub fn self_test_took(&self) -> Option<Duration> {
        self.self_test_took
    }

    /// This new communicator, all of whose ranks are in this process, after its self-test if there is to be one.
    ///
    /// # Errors
    /// [`Error::SelfTest`](crate::Error::SelfTest), [`Error::Driver`](crate::Error::Driver).
    pub(super) fn tested(self) -> Result<Communicator> {
        match self.untested() {
            Some(untested) if untested.wanted => self.test(&untested, None),
            Some(_) | None => Ok(self),
        }
    }

    /// The same of a rank of `meeting`, whose `words` say which of them want it: it is by all or by none.
    ///
    /// # Errors
    /// As above, and those of the meeting.
    pub(super) fn tested_with(
        self,
        untested: Option<&Untested>,
        meeting: &Meeting<'_>,
        words: &[Vec<u8>],
    ) -> Result<Communicator> {
        match untested {
            Some(untested) if words.iter().any(|word| word != NOT) => self.test(untested, Some(meeting)),
            Some(_) | None => Ok(self),
        }
    }

    /// What there is to test; the same on all ranks, but for whether it is wanted.
    pub(super) fn untested(&self) -> Option<Untested> {
        let asked = self.options.self_test;
        let trials = match asked {
            SelfTest::Cached | SelfTest::Always => calls(&self.options, self.limits(), self.rows()),
            SelfTest::Never => Vec::new(),
        };
        if trials.is_empty() {
            return None;
        }
        let gpus = match &self.backend {
            Backend::Cpu(_) => Vec::new(),
            Backend::Cuda(ranks) => ranks.gpus().to_vec(),
        };
        let on = On { gpus, processes: !self.members.all_local() };
        let subject = Subject::of(&on, &trials);
        let wanted = asked == SelfTest::Always || !subject.has_passed();
        Some(Untested { on, trials, subject, wanted })
    }

    fn test(mut self, untested: &Untested, meeting: Option<&Meeting<'_>>) -> Result<Communicator> {
        let _self_test = spans::self_test(self.members.first, self.members.world).entered();
        let began = Instant::now();
        let Untested { on, trials, subject, wanted: _ } = untested;
        let passed = of_backend!(&mut self.backend, ranks => run(&mut **ranks, on, trials, meeting));
        if let Err(error) = passed {
            tracing::warn!(%error, "a communicator is not made");
            subject.fail();
            return Err(error);
        }
        subject.pass();
        self.self_test_took = Some(began.elapsed());
        Ok(self)
    }
}
