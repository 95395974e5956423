//! How ranks come to a line of their own: rank 0 tells the others name and secret at a meeting that they have already.

use super::Meeting;
use crate::error::{Error, Result};
use crate::rendezvous::{Line, Ticket};

/// The line of those ranks of `meeting` that `seats` lists, in the order that they have there; `None` where this rank is not
/// among them. All ranks of `meeting` call it, each with its own group's list.
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
        Ok(Line::take(&ticket, seat as u32, world, meeting.deadline())?)
    };
    let line = match (seat, opened) {
        (None, _) => Ok(None),
        (Some(_), Some((line, _))) => Ok(Some(line)),
        (Some(0), None) => Ok(Some(Line::alone())),
        (Some(seat), None) => take(seat).map(Some),
    };
    // From here on only a rank that goes away keeps the others from meeting.
    let line = meeting.done(line)?;
    Ok(line.map(|line| line.meet(meeting.deadline())).transpose()?)
}
