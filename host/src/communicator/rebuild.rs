//! A new communicator over those ranks of one that has come to its end which are still there.

use std::time::Instant;

use super::connect::On;
use super::{Backend, Communicator, of_backend};
use crate::error::{Error, Result};
use crate::processes::deadline_after;
use crate::rendezvous::{Line, Rendezvous, RendezvousError, Seed};

impl Communicator {
    /// A communicator over `survivors`, ranks of this one: they are numbered anew, in the order of the list. It has the options of this
    /// one, fresh workspaces, and no registered buffers. No process or GPU starts anew.
    ///
    /// This communicator is stopped if it was not yet, as by [`Communicator::abort`], and its calls are waited for; on GPUs that is all work
    /// of this process there. It is of no use after that but to be dropped, or to be rebuilt again with another list, where one more rank
    /// turns out to be gone. Ranks that are left out, whether they are gone or only slow, keep the old workspaces mapped until they drop
    /// them or their process ends: what they still store there harms nobody. *Not so buffers that were registered with this
    /// communicator*, where a rank that is only slow may still store an old part of an exchange or a one-pass: they must not be used before
    /// each process that was left out has ended or has dropped its communicator. (Nor may memory of `cuMemAlloc` be freed before that,
    /// which goes by the driver's older handles.)
    ///
    /// Between processes all `survivors` call it, with the same list; the new one is there on all of them, or all fail within
    /// [`Options::connect_timeout`](crate::Options::connect_timeout).
    ///
    /// # Errors
    /// [`Error::Survivors`] for a list with a rank twice, without this process's own, or empty; [`Error::NoSuchRank`];
    /// [`Error::ContextLost`] where this process can use its GPU no more, as after a trap; those of [`Communicator::cpu_with`],
    /// [`Communicator::cuda_with`], [`Communicator::connect_cpu_with`] and [`Communicator::connect_cuda_with`], with ranks as the new
    /// communicator counts them.
    pub fn rebuild(&mut self, survivors: &[usize]) -> Result<Communicator> {
        let ranks = self.survivors(survivors)?;
        // What ended it is what others are to hear of, too; and where that cannot be read, they are to stop all the same.
        let words = of_backend!(&self.backend, ranks => ranks.left());
        if !words.is_ok_and(|words| words.iter().any(|word| word.stop.is_some())) {
            self.abort();
        }
        if let Backend::Cuda(all) = &mut self.backend {
            all.retire()?;
        }
        match &self.seed {
            None => self.over_local(&ranks),
            Some(seed) => self.over_processes(seed, &ranks),
        }
    }

    fn survivors(&self, survivors: &[usize]) -> Result<Vec<u32>> {
        let world = self.members.world;
        let rank = |&rank: &usize| match u32::try_from(rank) {
            Ok(rank) if rank < world => Ok(rank),
            Ok(_) | Err(_) => Err(Error::NoSuchRank { rank: rank.min(u32::MAX as usize) as u32, world }),
        };
        let ranks = survivors.iter().map(rank).collect::<Result<Vec<_>>>()?;
        let wrong = |why| Err(Error::Survivors { why });
        if ranks.is_empty() {
            return wrong("it is empty");
        }
        if (1..ranks.len()).any(|index| ranks[..index].contains(&ranks[index])) {
            return wrong("a rank is in it twice");
        }
        if self.seed.is_some() && !ranks.contains(&self.members.first) {
            return wrong("this process's own rank is not in it");
        }
        Ok(ranks)
    }

    fn over_processes(&self, seed: &Seed, survivors: &[u32]) -> Result<Communicator> {
        let world = survivors.len() as u32;
        let seat = survivors.iter().position(|&rank| rank == self.members.first).unwrap_or(0) as u32;
        let on = match &self.backend {
            Backend::Cpu(_) => On::Cpu,
            Backend::Cuda(ranks) => On::Gpu(ranks.device(self.members.first)),
        };
        let prepared = on.prepare(world, &self.options)?;
        let deadline = deadline_after(self.options.connect_timeout);
        let ticket = seed.ticket(survivors);
        let line = match (seat, world) {
            (_, 1) => Line::alone(),
            (0, _) => Line::open_at(&ticket, world)?,
            (seat, _) => loop {
                // The first of them may come later.
                match Line::take(&ticket, seat, world, deadline) {
                    Err(RendezvousError::Gone { rank: 0 }) if Instant::now() < deadline => {
                        std::thread::sleep(Line::PAUSE);
                    }
                    Err(RendezvousError::Gone { rank: 0 }) => {
                        return Err(RendezvousError::Missing { missing: vec![0] }.into());
                    }
                    line => break line?,
                }
            },
        };
        let line = line.meet(deadline)?;
        debug_assert_eq!((line.rank(), line.world()), (seat, world));
        Communicator::on(line, deadline, on, prepared, self.options.clone())
    }
}
