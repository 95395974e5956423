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

    /// Whether rows have come back since the last finish.
    pub(crate) fn has_returned(&self) -> bool {
        !lock(&self.rows).back.is_empty()
    }

    /// Frees the rows that have come back. Kernels of graphs that are gone have ended.
    pub(crate) fn reclaim<S: Sharing<Mapping = M>>(&mut self, sharing: &S) -> Result<()> {
        let back = std::mem::take(&mut lock(&self.rows).back);
        for &row in &back {
            sharing.write_row(row, &[0; ROW_WORDS])?;
            self.mappings[row as usize].clear();
        }
        lock(&self.rows).free.extend(back);
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
    ) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        compare(meeting, &pending)?;
        let used: Vec<_> = pending.iter().filter_map(|it| Some((it, it.row?, it.recorded.buffers?))).collect();
        let spans: Vec<_> = used.iter().flat_map(|&(.., buffers)| buffers).collect();
        let mut reached = reach(sharing, opened, meeting, &spans)?.into_iter();
        let mut write = || {
            for &(call, row, _) in &used {
                let (Some(input), Some(output)) = (reached.next(), reached.next()) else { break };
                // Its graph is gone, and the row with it.
                if call.lease.strong_count() == 0 {
                    continue;
                }
                let mut words = [0; ROW_WORDS];
                words[..MAX_RANKS].copy_from_slice(&input.addresses);
                words[MAX_RANKS..].copy_from_slice(&output.addresses);
                sharing.write_row(row, &words)?;
                self.mappings[row as usize] = input.mappings.into_iter().chain(output.mappings).collect();
            }
            Ok(())
        };
        let written = write();
        meeting.done(written)
    }
}

/// Refuses calls that are not the same on all ranks, and names the first.
fn compare(meeting: &Meeting<'_>, pending: &[Pending]) -> Result<()> {
    let hash = |call: &Pending| fnv1a(call.recorded.what.as_bytes()).to_le_bytes();
    let (_, words) = meeting.step(Ok(()), |()| pending.iter().flat_map(hash).collect())?;
    let most = words.iter().map(|word| word.len() / HASH_BYTES).max().unwrap_or(0);
    let of = |word: &[u8], number: usize| word.get(number * HASH_BYTES..(number + 1) * HASH_BYTES).map(<[u8]>::to_vec);
    let differs = |&number: &usize| words.windows(2).any(|pair| of(&pair[0], number) != of(&pair[1], number));
    let Some(number) = (0..most).find(differs) else { return Ok(()) };
    let own = pending.get(number).map_or("none", |call| &call.recorded.what);
    let (_, texts) = meeting.step(Ok(()), |()| own.as_bytes().to_vec())?;
    let texts = texts.iter().map(|text| String::from_utf8_lossy(text).into_owned());
    Err(Error::disagreement(format!("captured call {number}"), texts))
}

/// Bytes of a hash.
const HASH_BYTES: usize = size_of::<u64>();
