//! Communicators over some of a communicator's ranks, as `MPI_Comm_split` and `ncclCommSplit` make them.

use std::collections::BTreeMap;

use super::connect::On;
use super::{Backend, Communicator};
use crate::error::{Error, Result};
use crate::processes::{Meeting, of_seats, open_line};
use crate::rendezvous::Line;
use crate::spans;

/// What a rank asks for: its color, if it is to be in a part at all, and its key.
pub(super) type Seat = (Option<u32>, i32);

impl Communicator {
    /// A communicator over the ranks that give the same `color` as this one, in the order of their keys, and of their ranks
    /// where keys are the same; none for a rank that gives no color. For a communicator of which this process drives one rank.
    ///
    /// All ranks call it, each with a color and a key of its own. Every rank has its part then, or all fail, within the
    /// parent's [`Options::connect_timeout`](crate::Options::connect_timeout). A part has the parent's options and, on a GPU,
    /// holds blocks beside it ([`Options::max_blocks`](crate::Options::max_blocks)). It is a communicator like any other: it may
    /// be used in turn with its parent, outlive it, and be split again.
    ///
    /// ```
    /// use allfold::{Communicator, RankBuffers, ReduceOp, rendezvous};
    ///
    /// std::thread::scope(|scope| {
    ///     for seat in rendezvous::local(4).expect("1 to 8 ranks") {
    ///         scope.spawn(move || {
    ///             let mut all = Communicator::connect_cpu(&seat).expect("all ranks come");
    ///             let rank = all.local_ranks().start as u32;
    ///             // Ranks 0 and 1, and ranks 2 and 3.
    ///             let pair = all.split(Some(rank / 2), 0).expect("all ranks come");
    ///             let mut data = [rank as f32];
    ///             let buffers = [RankBuffers::in_place(&mut data)];
    ///             pair.expect("a color was given").all_reduce(&buffers, ReduceOp::Sum).expect("both ranks call");
    ///             assert_eq!(data, [if rank < 2 { 0.0 + 1.0 } else { 2.0 + 3.0 }]);
    ///         });
    ///     }
    /// });
    /// ```
    ///
    /// # Errors
    /// [`Error::RankCount`] where this process drives several ranks: see [`Communicator::split_each`]. Otherwise as there.
    pub fn split(&mut self, color: Option<u32>, key: i32) -> Result<Option<Communicator>> {
        Ok(self.split_each(&[(color, key)])?.pop())
    }

    /// [`Communicator::split`] for whatever number of ranks that this process drives: `seats` has the color and the key of
    /// each of them. Gives the communicators of those ranks, in ascending order of color.
    ///
    /// Where this process drives all ranks, the ranks of a part are numbered anew all the same: its calls name buffers in the
    /// order of keys.
    ///
    /// # Errors
    /// [`Error::RankCount`]; those of [`Communicator::check`] for which a communicator ends; those of [`Communicator::cpu_with`] and [`Communicator::cuda_with`], and
    /// [`Error::Table`] also where a part's GPUs are others than those that the table was measured on. Where ranks are processes:
    /// those of [`Communicator::connect_cpu_with`] and [`Communicator::connect_cuda_with`], with ranks as this communicator
    /// counts them; after [`Error::Rendezvous`] it cannot be split any more, and works on.
    pub fn split_each(&mut self, seats: &[Seat]) -> Result<Vec<Communicator>> {
        let _split = spans::split(self.members.first, self.members.world).entered();
        let local = self.members.local as usize;
        let right = match seats.len() == local {
            true => self.check_goes_on(),
            false => Err(Error::RankCount { local, got: seats.len() }),
        };
        match &self.line {
            Some(own) => {
                let part = self.split_over(own.line(), right.map(|()| seats[0]))?;
                Ok(part.into_iter().collect())
            }
            None => {
                right?;
                parts(seats).values().map(|ranks| self.over_local(ranks)).collect()
            }
        }
    }

    /// A communicator over `ranks`, which are all of this process.
    pub(super) fn over_local(&self, ranks: &[u32]) -> Result<Communicator> {
        match &self.backend {
            Backend::Cpu(_) => Communicator::cpu_with(ranks.len(), self.options.clone()),
            Backend::Cuda(all) => {
                let devices: Vec<_> = ranks.iter().map(|&rank| all.device(rank)).collect();
                Communicator::cuda_with(&devices, self.options.clone())
            }
        }
    }

    /// The part of this process's rank, which asks for `seat`, or cannot.
    fn split_over(&self, line: &Line, seat: Result<Seat>) -> Result<Option<Communicator>> {
        let meeting = Meeting::new(line, self.options.connect_timeout)?;
        let ((color, _), told) = meeting.step(seat, |&seat| encode(seat))?;
        let seats = (0..).zip(&told).map(|(rank, word)| {
            decode(word).ok_or(Error::RankFailed { rank, why: "it asked for what this version does not know".into() })
        });
        let mut parts = parts(&seats.collect::<Result<Vec<_>>>()?);
        let ranks = color.and_then(|color| parts.remove(&color)).unwrap_or_default();
        let on = match &self.backend {
            Backend::Cpu(_) => On::Cpu,
            Backend::Cuda(ranks) => On::Gpu(ranks.device(meeting.rank())),
        };
        let prepared = match ranks.len() {
            0 => Ok(None),
            world => on.prepare(world as u32, &self.options).map(Some),
        };
        let prepared = meeting.done(prepared)?;
        let made = match open_line(&meeting, &ranks)?.zip(prepared) {
            Some((line, prepared)) => Communicator::over(line, &meeting, on, prepared, self.options.clone()).map(Some),
            None => Ok(None),
        };
        // Where one part cannot be made there is none.
        meeting.done(made.map_err(|error| of_seats(error, &ranks)))
    }
}

/// The ranks of each color: by key, and then by rank.
fn parts(seats: &[Seat]) -> BTreeMap<u32, Vec<u32>> {
    let mut ranks: Vec<_> = (0..).zip(seats).filter_map(|(rank, &(color, key))| Some((color?, key, rank))).collect();
    ranks.sort_unstable();
    let mut parts = BTreeMap::<u32, Vec<u32>>::new();
    for (color, _, rank) in ranks {
        parts.entry(color).or_default().push(rank);
    }
    parts
}

/// A seat in bytes: its key, then its color, if any.
pub(super) fn encode((color, key): Seat) -> Vec<u8> {
    [&key.to_le_bytes()[..], color.map(u32::to_le_bytes).as_slice().as_flattened()].concat()
}

pub(super) fn decode(word: &[u8]) -> Option<Seat> {
    let (&key, color) = word.split_first_chunk()?;
    let color = if color.is_empty() { None } else { Some(u32::from_le_bytes(color.try_into().ok()?)) };
    Some((color, i32::from_le_bytes(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_by_key_and_then_by_rank() {
        let seats = [(Some(7), 0), (None, -9), (Some(2), 5), (Some(7), -1), (Some(7), 0), (Some(2), i32::MIN)];
        let parts = parts(&seats);
        assert_eq!(parts.into_iter().collect::<Vec<_>>(), [(2, vec![5, 2]), (7, vec![3, 0, 4])]);
    }

    #[test]
    fn what_a_rank_asks_for_is_heard_and_anything_else_is_refused() {
        for seat in [(None, 0), (Some(0), -1), (Some(u32::MAX), i32::MIN)] {
            assert_eq!(decode(&encode(seat)), Some(seat));
        }
        for word in [&[0; 0][..], &[0; 3], &[0; 5], &[0; 7], &[0; 9]] {
            assert_eq!(decode(word), None);
        }
    }
}
