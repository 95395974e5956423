//! One rank's buffers of a call, typed for users and raw for the rest of the crate.

use std::cell::Cell;
use std::ffi::c_void;
use std::marker::PhantomData;

use cust::memory::DeviceSlice;
use cust::stream::Stream;

use crate::cuda::RawStream;
use crate::element::Element;

/// Where a rank's buffers are, and for device memory in which stream's order the call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// Host memory.
    Host,
    /// Device memory.
    Device(RawStream<'a>),
}

/// One rank's buffers, without types or lifetimes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawBuffers<'a> {
    /// Address of the input.
    pub input: u64,
    /// Address of the output; that of the input for a call in place.
    pub output: u64,
    /// Elements of the input.
    pub input_elems: u64,
    /// Elements of the output.
    pub output_elems: u64,
    /// Where both are.
    pub place: Place<'a>,
}

impl<'a> RawBuffers<'a> {
    /// In which stream's order the call runs; `None` on the host.
    pub(crate) fn stream(&self) -> Option<RawStream<'a>> {
        match self.place {
            Place::Device(stream) => Some(stream),
            Place::Host => None,
        }
    }

    /// No buffers: a place to write others to.
    pub(crate) const NONE: Self =
        RawBuffers { input: 0, output: 0, input_elems: 0, output_elems: 0, place: Place::Host };
}

/// One rank's buffers of a call with elements of type `T`.
///
/// In a call's list, those at index `r` are rank `r`'s. They cannot be copied, nor used by two threads at once: the output
/// is borrowed mutably.
///
/// ```compile_fail,E0382
/// let mut data = [1.0_f32; 4];
/// let buffers = allfold::RankBuffers::in_place(&mut data);
/// let twice = [buffers, buffers];
/// ```
///
/// ```compile_fail,E0277
/// fn shared<T: Sync>(_: T) {}
/// shared(allfold::RankBuffers::in_place(&mut [1.0_f32; 4]));
/// ```
#[derive(Debug)]
pub struct RankBuffers<'a, T> {
    raw: RawBuffers<'a>,
    borrow: PhantomData<(&'a mut [T], Cell<()>)>,
}

impl<'a, T: Element> RankBuffers<'a, T> {
    /// Host memory, out of place: `input` of `n` elements, `output` of the same number.
    pub fn new(input: &'a [T], output: &'a mut [T]) -> Self {
        Self::from_raw(RawBuffers {
            input: input.as_ptr() as u64,
            output: output.as_mut_ptr() as u64,
            input_elems: input.len() as u64,
            output_elems: output.len() as u64,
            place: Place::Host,
        })
    }

    /// Host memory, in place: `buffer` is input and output.
    pub fn in_place(buffer: &'a mut [T]) -> Self {
        let address = buffer.as_mut_ptr() as u64;
        let elems = buffer.len() as u64;
        Self::from_raw(RawBuffers {
            input: address,
            output: address,
            input_elems: elems,
            output_elems: elems,
            place: Place::Host,
        })
    }

    /// Device memory of `cust`, out of place, in the order of `stream`.
    ///
    /// # Safety
    /// The call is asynchronous.
    /// - `stream` is of the rank's GPU, in its primary context.
    /// - Until this rank's `stream` has passed the call, both buffers and the stream stay alive, and nothing else writes the
    ///   input or touches the output. If the plan's protocol is not [sound](crate::Plan::soundness), or a wait was given
    ///   up: until the streams of *all* ranks have passed it.
    /// - For a registered input, both are of the rank's own GPU, the input can be read and the output read and written by all
    ///   GPUs of the communicator (`one_pass` and `exchange` store into peers' outputs): memory of `cuMemAlloc` can be, of a
    ///   stream-ordered pool only with access set.
    /// - A kernel that was launched into `stream` as a programmatic dependent one, and is still to come before the call, waits
    ///   for its predecessor (`griddepcontrol.wait`) in all its blocks.
    pub unsafe fn device(
        input: &'a DeviceSlice<T::Stored>,
        output: &'a mut DeviceSlice<T::Stored>,
        stream: &'a Stream,
    ) -> Self {
        Self::from_raw(RawBuffers {
            input: input.as_device_ptr().as_raw(),
            output: output.as_device_ptr().as_raw(),
            input_elems: input.len() as u64,
            output_elems: output.len() as u64,
            place: Place::Device(stream.into()),
        })
    }

    /// Device memory of `cust`, in place, in the order of `stream`.
    ///
    /// # Safety
    /// As for [`RankBuffers::device`].
    pub unsafe fn device_in_place(buffer: &'a mut DeviceSlice<T::Stored>, stream: &'a Stream) -> Self {
        let address = buffer.as_device_ptr().as_raw();
        let elems = buffer.len() as u64;
        Self::from_raw(RawBuffers {
            input: address,
            output: address,
            input_elems: elems,
            output_elems: elems,
            place: Place::Device(stream.into()),
        })
    }

    /// Device memory of any library (cudarc, candle, …): `elems` elements at `input` and at `output`, which may be the
    /// same address, in the order of the `CUstream` `stream`.
    ///
    /// # Safety
    /// As for [`RankBuffers::device`]; both addresses are of device memory of `elems` elements, in the primary context
    /// of the rank's GPU, and `stream` is a stream of that context. The per-thread default stream is another one in each thread:
    /// calls on it by several threads are ordered by the caller.
    pub unsafe fn device_raw(input: u64, output: u64, elems: u64, stream: *mut c_void) -> Self {
        // SAFETY: the caller's promise.
        let stream = unsafe { RawStream::from_ptr(stream) };
        Self::from_raw(RawBuffers {
            input,
            output,
            input_elems: elems,
            output_elems: elems,
            place: Place::Device(stream),
        })
    }

    fn from_raw(raw: RawBuffers<'a>) -> Self {
        RankBuffers { raw, borrow: PhantomData }
    }

    /// The buffers without their type.
    pub fn raw(&self) -> RawBuffers<'a> {
        self.raw
    }
}
