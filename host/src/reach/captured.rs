//! Captured calls whose buffers are not registered yet: noted when they are recorded, compared and made known when the
//! capture is finished. A graph holds the rows of its calls; with the graph they come back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use allfold_kernels::protocol::abi::{MAX_RANKS, ROW_WORDS};

use super::exchange::{Opened, reach};
use super::{Sharing, Span};
use crate::error::{Error, Result};
use crate::hash::fnv1a;
use crate::processes::Meeting;

/// A captured call, as all ranks must have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// All that is the same on all ranks, as text.
    pub(crate) what: String,
    /// Input and output of the local rank, where peers use them.
    pub(crate) buffers: Option<[Span; 2]>,
}

/// The rows that no graph holds.
struct Rows {
    free: Vec<u32>,
    /// Those of graphs that are gone, with what was written there.
    back: Vec<u32>,
}

/// Rows of one graph; with it they come back.
pub(crate) struct Lease {
    rows: Mutex<Vec<u32>>,
    home: Arc<Mutex<Rows>>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        // A driver's thread may do it: nothing here may wait or call the driver.
        let rows = std::mem::take(&mut *lock(&self.rows));
        lock(&self.home).back.extend(rows);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that holds one of these locks can panic half-way through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A captured call that is not finished.
struct Pending {
    recorded: Recorded,
    /// The row that its kernel reads.
    row: Option<u32>,
    /// The graph's.
    lease: Weak<Lease>,
}

/// The captured calls of a communicator in several processes.
pub(crate) struct Captured<M> {
    rows: Arc<Mutex<Rows>>,
    /// Rows that there are.
    count: u32,
    /// What keeps the buffers of each row in reach.
    mappings: Vec<Vec<Arc<M>>>,
    /// Those since the last finish.
    pending: Vec<Pending>,
}

impl<M> Captured<M> {
    /// With room for `count` calls whose buffers peers use.
    pub(crate) fn new(count: u32) -> Captured<M> {
        let rows = Rows { free: (0..count).rev().collect(), back: Vec::new() };
        Captured {
            rows: Arc::new(Mutex::new(rows)),
            count,
            mappings: (0..count).map(|_| Vec::new()).collect(),
            pending: Vec::new(),
        }
    }

    /// For the rows of a new graph.
    pub(crate) fn lease(&self) -> Lease {
        Lease { rows: Mutex::default(), home: Arc::clone(&self.rows) }
    }

    /// Notes a call of `lease`'s graph, and gives the row that its kernel is to read, if it needs one.
    ///
    /// # Errors
    /// [`Error::TooManyCaptured`]: as many calls are captured as there is room for. Rows of graphs that are gone are
    /// free after the next finish.
    pub(crate) fn note(&mut self, recorded: Recorded, lease: &Arc<Lease>) -> Result<Option<u32>> {
        let row = match recorded.buffers {
            None => None,
            Some(_) => Some(lock(&self.rows).free.pop().ok_or(Error::TooManyCaptured { most: self.count })?),
        };
        lock(&lease.rows).extend(row);
        self.pending.push(Pending { recorded, row, lease: Arc::downgrade(lease) });
        Ok(row)
    }

    /// Calls since the last finish.
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Forgets all calls since the last finish but the first `count`: their capture was given up.
    pub(crate) fn forget_after(&mut self, count: usize) {
        self.pending.truncate(count);
    }

    /// The rows that have come back. Once their kernels have ended they go to [`Captured::reclaim`].
    pub(crate) fn returned(&self) -> Vec<u32> {
        std::mem::take(&mut lock(&self.rows).back)
    }

    /// Frees rows that came back, if their kernels have `ended`; if not, or where it fails, they are kept for another time.
    pub(crate) fn reclaim<S: Sharing<Mapping = M>>(
        &mut self,
        sharing: &S,
        back: Vec<u32>,
        ended: Result<()>,
    ) -> Result<()> {
        let cleared = ended.and_then(|()| back.iter().try_for_each(|&row| self.clear(sharing, row)));
        let mut rows = lock(&self.rows);
        if cleared.is_ok() {
            rows.free.extend(back)
        } else {
            rows.back.extend(back)
        }
        cleared
    }

    /// Empties a row that no kernel reads now.
    fn clear<S: Sharing<Mapping = M>>(&mut self, sharing: &S, row: u32) -> Result<()> {
        sharing.write_row(row, &[0; ROW_WORDS])?;
        self.mappings[row as usize].clear();
        Ok(())
    }

    /// Compares the calls since the last finish with those of all ranks, and makes their buffers known.
    ///
    /// # Errors
    /// On every rank the same [`Error::Disagreement`] for the first call that is not the same on all; those of
    /// [`reach`]. The calls are forgotten; their rows stay empty, and kernels that find them so leave.
    pub(super) fn finish<S: Sharing<Mapping = M>>(
        &mut self,
        sharing: &S,
        opened: &mut Opened<M>,
        meeting: &Meeting<'_>,
        failed: Option<&str>,
    ) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        let alive = compare(meeting, &pending, failed)?;
        let used = pending.iter().zip(alive).filter(|(_, alive)| *alive);
        let used: Vec<_> = used.filter_map(|(it, _)| Some((it.row?, it.recorded.buffers?))).collect();
        let spans: Vec<_> = used.iter().flat_map(|&(_, buffers)| buffers).collect();
        let mut reached = reach(sharing, opened, meeting, Ok(&spans))?.into_iter();
        let mut write = || {
            for &(row, _) in &used {
                let (Some(input), Some(output)) = (reached.next(), reached.next()) else { break };
                let mut words = [0; ROW_WORDS];
                words[..MAX_RANKS].copy_from_slice(&input.addresses);
                words[MAX_RANKS..].copy_from_slice(&output.addresses);
                sharing.write_row(row, &words)?;
                self.mappings[row as usize] = input.mappings.into_iter().chain(output.mappings).collect();
            }
            Ok(())
        };
        let written = write();
        // Where one rank cannot, no rank's kernels find any buffers.
        meeting.done(written).inspect_err(|_| {
            for &(row, _) in &used {
                if let Err(error) = self.clear(sharing, row) {
                    tracing::warn!(%error, "a row of a capture that failed could not be emptied");
                }
            }
        })
    }
}

/// Refuses calls that are not the same on all ranks, and names the first. Of each, whether its graph is there on all ranks:
/// the buffers of one that is gone may be gone too.
/// `failed`: why this rank's last capture has failed, which all hear where calls are missing.
fn compare(meeting: &Meeting<'_>, pending: &[Pending], failed: Option<&str>) -> Result<Vec<bool>> {
    let word = |call: &Pending| {
        let mut word = [u8::from(call.lease.strong_count() > 0); WORD_BYTES];
        word[1..].copy_from_slice(&fnv1a(call.recorded.what.as_bytes()).to_le_bytes());
        word
    };
    let (_, words) = meeting.step_long(Ok(()), |()| pending.iter().flat_map(word).collect())?;
    let calls: Vec<Vec<&[u8]>> = words.iter().map(|word| word.chunks(WORD_BYTES).collect()).collect();
    let hash = |rank: usize, number: usize| calls[rank].get(number).map(|word| &word[1..]);
    let most = calls.iter().map(Vec::len).max().unwrap_or(0);
    let differs = |&number: &usize| (1..calls.len()).any(|rank| hash(rank, number) != hash(0, number));
    let Some(number) = (0..most).find(differs) else {
        let on_all = |number: usize| calls.iter().all(|calls| calls.get(number).is_some_and(|word| word[0] == 1));
        return Ok((0..most).map(on_all).collect());
    };
    if let Some(why) = failed {
        return Err(meeting.fail(why));
    }
    let own = pending.get(number).map_or("none", |call| &call.recorded.what);
    let (_, texts) = meeting.step(Ok(()), |()| own.as_bytes().to_vec())?;
    let texts = texts.iter().map(|text| String::from_utf8_lossy(text).into_owned());
    Err(Error::disagreement(format!("captured call {number}"), texts))
}

/// Bytes that are told of a call: whether its graph is there, and its hash.
const WORD_BYTES: usize = 1 + size_of::<u64>();
