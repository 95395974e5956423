//! Stamps: inputs that the ranks fill in themselves and sums that they compare themselves, for runs on new input in each call.

use allfold_kernels::protocol::abi::ReduceOp;
use allfold_kernels::protocol::status::FirstWrong;

use super::{Backend, Communicator};
use crate::buffers::RankBuffers;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::reach::Registered;
use crate::request::Request;

impl Communicator {
    /// Fills each local rank's *output* with stamps that are to be the input of the next call: small integers made of rank,
    /// element and call number, whose sum is exact in every dtype. Asynchronous and capturable like a call.
    ///
    /// # Errors
    /// Those of [`Request::new`]; [`Error::NotDeclared`] without [`Options::stamps`](crate::Options::stamps); [`Error::Driver`]; those of
    /// [`Communicator::check`] where the communicator is known to be at its end.
    pub fn fill_stamps<T: Element>(&mut self, buffers: &[RankBuffers<'_, T>]) -> Result<()> {
        self.stamps(false, buffers)
    }

    /// Compares each local rank's *input* with what the last call must have left there if its inputs were stamps; elements
    /// that differ are counted, see [`Communicator::wrong`]. Asynchronous and capturable like a call.
    ///
    /// # Errors
    /// As [`Communicator::fill_stamps`].
    pub fn check_stamps<T: Element>(&mut self, buffers: &[RankBuffers<'_, T>]) -> Result<()> {
        self.stamps(true, buffers)
    }

    /// Wrong elements that [`Communicator::check_stamps`] has counted so far, on each local rank. Synchronises like
    /// [`Communicator::check`].
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn wrong(&self) -> Result<Vec<u64>> {
        match &self.backend {
            Backend::Cpu(ranks) => ranks.wrong(),
            Backend::Cuda(ranks) => ranks.wrong(),
        }
    }

    /// The first element that [`Communicator::check_stamps`] has found wrong on each local rank. Synchronises like
    /// [`Communicator::check`].
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn first_wrong(&self) -> Result<Vec<Option<FirstWrong>>> {
        let words = match &self.backend {
            Backend::Cpu(ranks) => ranks.first_wrong(),
            Backend::Cuda(ranks) => ranks.first_wrong(),
        }?;
        Ok(words.into_iter().map(FirstWrong::decode).collect())
    }

    fn stamps<T: Element>(&mut self, check: bool, buffers: &[RankBuffers<'_, T>]) -> Result<()> {
        if !self.options.stamps {
            return Err(Error::NotDeclared { what: "stamps", option: "stamps" });
        }
        self.check_goes_on()?;
        let raw = self.raw_of(buffers)?;
        let raw = &raw[..buffers.len()];
        self.check_place(raw)?;
        let request = Request::of(self.members, T::DTYPE, ReduceOp::Sum, raw, Registered::No)?;
        if request.elems == 0 {
            return Ok(());
        }
        self.check_turns(raw)?;
        self.take_turns(raw)?;
        match &mut self.backend {
            // SAFETY: as in `all_reduce_with`.
            Backend::Cpu(ranks) => unsafe { ranks.stamps(check, &request, raw) },
            // SAFETY: as above.
            Backend::Cuda(ranks) => unsafe { ranks.stamps(check, &request, raw) },
        }
    }
}
