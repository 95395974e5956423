//! Ranks that MPI has started: they meet by messages between two ranks, each sent and received without waiting for it. What
//! they say is in `star.rs`. Uses the crate `mpi`.

use std::mem::ManuallyDrop;
use std::time::Instant;

use ::mpi::ffi;
use ::mpi::request::{Request, StaticScope};
use ::mpi::topology::SimpleCommunicator;
use ::mpi::traits::*;

use super::star::{MOST_MESSAGE_BYTES, Star, Wire, pause};
use super::{Rendezvous, RendezvousError, check};

/// The tag of all messages: the communicator has no others.
const TAG: ::mpi::Tag = 0;

/// A rank of a group of processes that MPI has started, in the order of a communicator of crate `mpi` (0.8). When it is
/// dropped the rank has left.
///
/// ```no_run
/// use std::time::{Duration, Instant};
///
/// use allfold::Communicator;
/// use allfold::rendezvous::Mpi;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let started = mpi::initialize_with_threading(mpi::Threading::Funneled);
/// let (universe, _) = started.ok_or("MPI is in use already")?;
/// let ranks = Mpi::join(&universe.world(), Instant::now() + Duration::from_secs(60))?;
/// let communicator = Communicator::connect_cpu(&ranks)?;
/// # drop(communicator);
/// # Ok(())
/// # }
/// ```
///
/// **Deadlines hold**, but for a tenth of a second to hear and to say why: no call of MPI is made that waits. The one
/// collective of MPI is the duplication of the communicator, in [`Mpi::join`], which is begun and looked at. Where a
/// deadline passes, MPI may still read or write the memory of a message that is under way. That memory is then never
/// freed: it is what the last calls of the group, which has failed, gave and took. MPI does not promise to end well
/// with messages under way: after a passed deadline end the job by `abort`, since `MPI_Finalize` may wait.
///
/// **Messages of the program** are not touched: the group has a duplicate of the communicator. It is not freed before
/// MPI ends, as a last word of a rank that left may still be on its way.
///
/// **What a rank hears, it hears in its calls**: there are no threads here. Rank 0 decides what comes of a call, so
/// while it is in none the others wait until their deadlines, and name it. A rank stays on its thread, as MPI need not
/// take calls from others; and MPI is started with `Threading::Funneled` at least, as a communicator has threads of its
/// own, which do not call it.
///
/// **A rank that is dropped** is named on the others as [`RendezvousError::Gone`]; drop it before MPI ends. A process
/// that ends without `MPI_Finalize` ends the job: so do launchers of MPI, and so does `MPI_ERRORS_ARE_FATAL`, the error
/// handler that the crate `mpi` relies on. Calls after `MPI_Finalize` are refused.
pub struct Mpi(Star<Messages>);

impl Mpi {
    /// Meets the other ranks of `communicator`. All of them call it, and may do so again for another group; not after
    /// `Host`, since a rank that comes late to the one could then be taken to have come to the other.
    ///
    /// # Errors
    /// [`RendezvousError::WorldSize`], [`RendezvousError::Version`]; [`RendezvousError::Missing`] with the ranks that
    /// are missing, or, where one has not even come to duplicate the communicator, [`RendezvousError::Host`]: MPI does
    /// not say then which. Also `Host` for a communicator between two groups, and where MPI is not running.
    pub fn join(communicator: &impl Communicator, deadline: Instant) -> Result<Mpi, RendezvousError> {
        if !::mpi::is_initialized() {
            return Err(refused("it has not begun"));
        }
        is_running()?;
        if communicator.test_inter() {
            return Err(refused("the communicator is one between two groups"));
        }
        // MPI has no negative ranks or sizes.
        let (rank, world) = (communicator.rank().unsigned_abs(), communicator.size().unsigned_abs());
        check(rank, world)?;
        let communicator = ManuallyDrop::new(duplicate(communicator, deadline)?);
        let arriving = (0..world).map(|_| None).collect();
        Star::join(Messages { communicator, leaving: Vec::new(), arriving }, rank, world, deadline).map(Mpi)
    }
}

impl Rendezvous for Mpi {
    fn rank(&self) -> u32 {
        self.0.rank()
    }

    fn world(&self) -> u32 {
        self.0.world()
    }

    fn all_gather(&self, bytes: &[u8], deadline: Instant) -> Result<Vec<Vec<u8>>, RendezvousError> {
        is_running()?;
        self.0.all_gather(bytes, deadline)
    }

    fn barrier(&self, deadline: Instant) -> Result<(), RendezvousError> {
        is_running()?;
        self.0.barrier(deadline)
    }
}

fn refused(why: &str) -> RendezvousError {
    RendezvousError::Host { what: "MPI", why: why.to_owned() }
}

fn is_running() -> Result<(), RendezvousError> {
    if ::mpi::is_finalized() { Err(refused("it has ended")) } else { Ok(()) }
}

/// A duplicate of `communicator`, made by all its ranks.
fn duplicate(communicator: &impl Communicator, deadline: Instant) -> Result<SimpleCommunicator, RendezvousError> {
    // SAFETY: a constant of the library's.
    let made = Box::into_raw(Box::new(unsafe { ffi::RSMPI_COMM_NULL }));
    // SAFETY: as above.
    let mut request = unsafe { ffi::RSMPI_REQUEST_NULL };
    // SAFETY: the communicator is alive; `made` is memory that MPI may write until the request is done, and is kept
    // until then.
    let code = unsafe { ffi::MPI_Comm_idup(communicator.as_raw(), made, &mut request) };
    if code != 0 {
        return Err(refused(&format!("MPI_Comm_idup gives {code}")));
    }
    let mut looks = 0;
    loop {
        let mut done = 0;
        // SAFETY: the request is the one above, not done yet, and both are written in the call alone.
        let code = unsafe { ffi::MPI_Test(&mut request, &mut done, ffi::RSMPI_STATUS_IGNORE) };
        if code != 0 {
            return Err(refused(&format!("MPI_Test gives {code}")));
        }
        if done != 0 {
            break;
        }
        if Instant::now() >= deadline {
            // `made` stays: MPI may write it when the last rank comes.
            return Err(refused("not all ranks came within the deadline to duplicate the communicator"));
        }
        pause(&mut looks);
    }
    // SAFETY: it is from a box, above, and MPI has done with it.
    let made = unsafe { Box::from_raw(made) };
    // SAFETY: a communicator that was just made, within one group as `communicator` is, and nobody else has it.
    Ok(unsafe { SimpleCommunicator::from_raw(*made) })
}

/// Messages by a communicator that has no others.
struct Messages {
    /// Not freed: see [`Mpi`].
    communicator: ManuallyDrop<SimpleCommunicator>,
    leaving: Vec<Flight>,
    /// Of each rank, the message that is being received.
    arriving: Vec<Option<Flight>>,
}

impl Wire for Messages {
    fn send(&mut self, to: u32, message: Vec<u8>) {
        if ::mpi::is_finalized() {
            return;
        }
        let to = self.communicator.process_at_rank(to as ::mpi::Rank);
        self.leaving.push(Flight::new(message, |bytes| to.immediate_send_with_tag(StaticScope, bytes, TAG)));
    }

    fn receive(&mut self, from: u32) -> Option<Vec<u8>> {
        if ::mpi::is_finalized() {
            return None;
        }
        let source = self.communicator.process_at_rank(from as ::mpi::Rank);
        let arriving = self.arriving.get_mut(from as usize)?;
        if arriving.is_none() {
            // A look that finds nothing may be what has brought the message here.
            let look = || source.immediate_probe_with_tag(TAG);
            let bytes = look().or_else(look)?.count(u8::equivalent_datatype());
            // It may be anything: what is too long is read as nothing, which is no message.
            let Some(bytes) = usize::try_from(bytes).ok().filter(|bytes| *bytes <= MOST_MESSAGE_BYTES) else {
                return Some(Vec::new());
            };
            let into = |bytes| source.immediate_receive_into_with_tag(StaticScope, bytes, TAG);
            *arriving = Some(Flight::new(vec![0; bytes], into));
        }
        let message = arriving.as_mut()?.land()?;
        *arriving = None;
        Some(message)
    }

    fn is_sent(&mut self) -> bool {
        if !::mpi::is_finalized() {
            self.leaving.retain_mut(|flight| flight.land().is_none());
        }
        self.leaving.is_empty()
    }
}

/// A message under way. Where it is dropped before it has landed, its memory is left to MPI for ever.
struct Flight {
    bytes: *mut [u8],
    request: Option<Request<'static, [u8]>>,
}

impl Flight {
    fn new(bytes: Vec<u8>, start: impl FnOnce(&'static mut [u8]) -> Request<'static, [u8]>) -> Flight {
        let bytes = Box::into_raw(bytes.into_boxed_slice());
        // SAFETY: memory of a box, to which nothing else refers, and which is freed only when the request is done.
        let request = Some(start(unsafe { &mut *bytes }));
        Flight { bytes, request }
    }

    /// The message's bytes, once, when MPI has done with them.
    fn land(&mut self) -> Option<Vec<u8>> {
        match self.request.take()?.test() {
            Ok(_) => {
                // SAFETY: from a box, in `new`. The request, which alone referred to it, is gone, so that this is not
                // done again.
                Some(unsafe { Box::from_raw(self.bytes) }.into_vec())
            }
            Err(request) => {
                self.request = Some(request);
                None
            }
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        // A request panics where it is dropped, and its memory is not to be freed.
        std::mem::forget(self.request.take());
    }
}
