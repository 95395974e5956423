//! `bar.sync`, and the joins of a stream: threads of one rank meet, and each sees all that the others did before.
//!
//! The meeting is no loom object. Two threads that come to a barrier commute, so there is nothing to explore in who
//! comes first; loom would explore it for every barrier all the same. Parking and waking carries the causality.

use std::cell::RefCell;

use loom::thread::{self, Thread};

/// Where threads of one rank meet, again and again.
pub struct Meeting {
    members: u32,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// Who came first, and its vote.
    first: Option<(Thread, bool)>,
    /// Who came second, and its vote.
    second: Option<(Thread, bool)>,
}

impl Meeting {
    /// Of `members` threads.
    ///
    /// # Panics
    /// With more than two: loom has five threads, so no rank has more.
    pub fn new(members: u32) -> Meeting {
        assert!(members <= 2, "loom has too few threads for {members} in a rank");
        Meeting { members, state: RefCell::default() }
    }

    /// Waits for the other member; one of the two then does `work`. True if both gave a true `vote`.
    ///
    /// # Panics
    /// When loom wakes a thread that nobody of this meeting woke.
    pub fn meet(&self, vote: bool, work: impl FnOnce()) -> bool {
        if self.members == 1 {
            work();
            return vote;
        }
        let me = thread::current();
        let first = self.state.borrow_mut().first.take();
        match first {
            None => {
                self.state.borrow_mut().first = Some((me, vote));
                // Whoever wakes a thread hands it all that it has seen: the first to come wakes with what both know,
                // works, and gives it all back.
                thread::park();
                let second = self.state.borrow_mut().second.take();
                let (second, its_vote) = second.expect("only the second to come wakes the first");
                work();
                self.state.borrow_mut().second = Some((second.clone(), vote && its_vote));
                second.unpark();
                vote && its_vote
            }
            Some((first, _)) => {
                self.state.borrow_mut().second = Some((me, vote));
                first.unpark();
                thread::park();
                let answer = self.state.borrow_mut().second.take();
                answer.expect("the first to come left the answer").1
            }
        }
    }
}
