//! How ranks come to a line of their own: rank 0 tells the others name and secret at a meeting that they have already.

use super::Meeting;
use crate::error::{Error, Result};
use crate::rendezvous::{Line, RendezvousError, Ticket};

/// The line of those ranks of `meeting` that `seats` lists, in the order that they have there; `None` where this rank is not
/// among them. All ranks of `meeting` call it, each with its own group's list. They have their seats then, and only a rank that
/// goes away can keep the others from [`Line::meet`], which comes next.
///
/// # Errors
/// [`Error::Rendezvous`], and [`Error::RankFailed`] on the others.
pub(crate) fn open_line(meeting: &Meeting<'_>, seats: &[u32]) -> Result<Option<Line>> {
    let seat = seats.iter().position(|&rank| rank == meeting.rank());
    let world = seats.len() as u32;
    let opened = match seat {
        Some(0) if world > 1 => Line::open(world).map(Some),
        Some(_) | None => Ok(None),
    };
    let tell = |opened: &Option<(Line, Ticket)>| opened.as_ref().map_or(Vec::new(), |(_, ticket)| ticket.encode());
    let (opened, told) = meeting.step(opened.map_err(Error::from), tell)?;
    let take = |seat: usize| {
        let host = seats[0];
        let failed = || Error::RankFailed { rank: host, why: "it has told no line".to_owned() };
        let ticket = told.get(host as usize).and_then(|word| Ticket::decode(word)).ok_or_else(failed)?;
        let line = Line::take(&ticket, seat as u32, world, meeting.deadline());
        line.map_err(|error| of_seats(error.into(), seats))
    };
    let line = match (seat, opened) {
        (None, _) => Ok(None),
        (Some(_), Some((line, _))) => Ok(Some(line)),
        (Some(0), None) => Ok(Some(Line::alone())),
        (Some(seat), None) => take(seat).map(Some),
    };
    meeting.done(line)
}

/// An error of the line of `seats`, with ranks as the meeting counts them that opened it.
pub(crate) fn of_seats(mut error: Error, seats: &[u32]) -> Error {
    let recount = |rank: &mut u32| *rank = seats.get(*rank as usize).copied().unwrap_or(*rank);
    if let Error::RankFailed { rank, .. }
    | Error::PeerGone { rank }
    | Error::Rendezvous(RendezvousError::Gone { rank }) = &mut error
    {
        recount(rank);
    }
    if let Error::Rendezvous(RendezvousError::Missing { missing }) = &mut error {
        missing.iter_mut().for_each(recount);
    }
    if let Error::SelfTest { pairs, .. } = &mut error {
        pairs.iter_mut().for_each(|(from, to)| [from, to].into_iter().for_each(recount));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_a_part_are_counted_as_the_whole_has_them() {
        let of = |error| of_seats(error, &[3, 1]);
        let hint = String::new();
        let Error::SelfTest { pairs, .. } =
            of(Error::SelfTest { pairs: vec![(0, 1), (1, 0)], what: String::new(), hint })
        else {
            panic!("another error")
        };
        assert_eq!(pairs, [(3, 1), (1, 3)]);
        assert!(matches!(of(Error::PeerGone { rank: 0 }), Error::PeerGone { rank: 3 }));
        let missing = RendezvousError::Missing { missing: vec![1, 0] };
        let Error::Rendezvous(RendezvousError::Missing { missing }) = of(missing.into()) else {
            panic!("another error")
        };
        assert_eq!(missing, [1, 3]);
    }
}
