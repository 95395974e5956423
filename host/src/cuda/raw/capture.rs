//! Stream capture, and the graphs that it makes.

use std::{
    ffi::{c_int, c_void},
    marker::PhantomData,
    ptr,
    sync::Arc,
};

use cust::sys::{
    CUgraph, CUgraphExec, CUresult, CUstreamCaptureMode, CUstreamCaptureStatus, CUuserObject_flags,
    CUuserObjectRetain_flags,
};

use super::{Context, DriverError, driver_call, release};
use crate::cuda::stream::RawStream;

/// A capture under way. It ends when this is dropped, whatever happened meanwhile.
#[derive(Debug)]
pub struct Capture<'s> {
    context: Context,
    stream: RawStream<'s>,
    under_way: bool,
    /// A capture ends on the thread that began it.
    thread: PhantomData<*const ()>,
}

impl<'s> Capture<'s> {
    /// From here on, `stream`, which belongs to `context`, records what is put into it and runs nothing. Other threads
    /// may do what they like meanwhile.
    ///
    /// # Errors
    ///
    /// `cuStreamBeginCapture_v2` failed: code 900 for a default stream, 401 if a capture is under way.
    pub fn begin(context: &Context, stream: RawStream<'s>) -> Result<Self, DriverError> {
        let _current = context.enter()?;
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives, by its type.
        unsafe { driver_call!(cuStreamBeginCapture_v2(stream.as_ptr().cast(), mode)) }?;
        Ok(Self { context: context.clone(), stream, under_way: true, thread: PhantomData })
    }

    /// Ends the capture.
    ///
    /// # Errors
    ///
    /// `cuStreamEndCapture` failed: code 901 if something that can't be recorded was tried.
    pub fn end(mut self) -> Result<CapturedGraph, DriverError> {
        self.finish()
    }

    /// Where it fails it may be tried again: a stream that is left recording is of no use to anybody.
    fn finish(&mut self) -> Result<CapturedGraph, DriverError> {
        let _current = self.context.enter()?;
        let mut graph = CapturedGraph { context: self.context.clone(), handle: ptr::null_mut() };
        // SAFETY: the stream lives, and its capture was begun on this thread.
        unsafe { driver_call!(cuStreamEndCapture(self.stream.as_ptr().cast(), &mut graph.handle)) }?;
        self.under_way = false;
        Ok(graph)
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if self.under_way {
            // It may well have failed: that is often why it is dropped.
            if let Err(error) = self.finish() {
                tracing::debug!(%error, "a capture was given up");
            }
        }
    }
}

impl Context {
    /// Whether `stream`, which belongs to this context, records what is put into it and runs nothing, whoever began that.
    ///
    /// # Errors
    ///
    /// `cuStreamIsCapturing` failed: code 906 for the legacy default stream while a stream is captured that waits for it.
    pub(crate) fn is_capturing(&self, stream: RawStream<'_>) -> Result<bool, DriverError> {
        let _current = self.enter()?;
        // Not of the enum's type, which a newer driver may have more values for.
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE as c_int;
        // SAFETY: the stream lives, by its type, and it writes one integer, which the enum is.
        unsafe { driver_call!(cuStreamIsCapturing(stream.as_ptr().cast(), ptr::from_mut(&mut status).cast())) }?;
        Ok(status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE as c_int)
    }
}

/// The graph that a stream records into at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CapturingGraph {
    /// A number that no other capture of this process has or had.
    pub id: u64,
    handle: CUgraph,
}

impl CapturingGraph {
    /// What `stream` records into; `None`: it runs what is put into it.
    ///
    /// # Errors
    ///
    /// `cuStreamGetCaptureInfo_v2` failed, or what was recorded so far cannot be a graph any more (code 901).
    pub fn of_stream(context: &Context, stream: RawStream<'_>) -> Result<Option<Self>, DriverError> {
        use CUstreamCaptureStatus as Status;
        let _current = context.enter()?;
        // Not of the enum's type, which a newer driver may have more values for.
        let mut status = Status::CU_STREAM_CAPTURE_STATUS_NONE as c_int;
        let (mut id, mut handle, none) = (0, ptr::null_mut(), ptr::null_mut());
        let stream = stream.as_ptr().cast();
        // SAFETY: the stream lives, by its type; it writes a status, a number and a handle, and nothing where null stands.
        unsafe {
            driver_call!(cuStreamGetCaptureInfo_v2(
                stream,
                ptr::from_mut(&mut status).cast(),
                &mut id,
                &mut handle,
                none,
                ptr::null_mut()
            ))
        }?;
        match status {
            _ if status == Status::CU_STREAM_CAPTURE_STATUS_NONE as c_int => Ok(None),
            _ if status == Status::CU_STREAM_CAPTURE_STATUS_ACTIVE as c_int => Ok(Some(Self { id, handle })),
            _ => Err(DriverError {
                call: "cuStreamGetCaptureInfo_v2",
                code: CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED as i32,
                text: "what was recorded cannot be a graph any more".into(),
            }),
        }
    }

    /// Drops `kept` when the graph and all that is made from it are gone: on a thread of the driver's, where no driver call may be made.
    ///
    /// # Errors
    ///
    /// `cuUserObjectCreate` or `cuGraphRetainUserObject` failed; `kept` is dropped then.
    pub fn keep<T: Send + Sync + 'static>(&self, context: &Context, kept: Arc<T>) -> Result<(), DriverError> {
        unsafe extern "C" fn give_up<T>(kept: *mut c_void) {
            // SAFETY: it is what `keep` gave the driver, which calls this once.
            drop(unsafe { Arc::from_raw(kept.cast_const().cast::<T>()) });
        }
        let _current = context.enter()?;
        let pointer = Arc::into_raw(kept).cast_mut().cast::<c_void>();
        let mut object = ptr::null_mut();
        let flags = CUuserObject_flags::CU_USER_OBJECT_NO_DESTRUCTOR_SYNC as u32;
        // SAFETY: it takes the pointer, for which `give_up` is the function to call, and writes a handle.
        let made = unsafe { driver_call!(cuUserObjectCreate(&mut object, pointer, Some(give_up::<T>), 1, flags)) };
        if let Err(error) = made {
            // SAFETY: the driver has not taken it.
            unsafe { give_up::<T>(pointer) };
            return Err(error);
        }
        let moves = CUuserObjectRetain_flags::CU_GRAPH_USER_OBJECT_MOVE as u32;
        // SAFETY: the capture is under way, so its graph lives, and takes over the one reference to the object.
        let retained = unsafe { driver_call!(cuGraphRetainUserObject(self.handle, object, 1, moves)) };
        if retained.is_err() {
            // SAFETY: the reference is still here, and is given up once.
            release(unsafe { driver_call!(cuUserObjectRelease(object, 1)) });
        }
        retained
    }
}

/// What a capture recorded.
#[derive(Debug)]
pub struct CapturedGraph {
    context: Context,
    handle: CUgraph,
}

impl CapturedGraph {
    /// Makes it ready to be launched. Nothing may be captured on this thread meanwhile.
    ///
    /// # Errors
    ///
    /// `cuGraphInstantiateWithFlags` failed.
    pub fn instantiate(self) -> Result<ExecutableGraph, DriverError> {
        let _current = self.context.enter()?;
        let mut graph = ExecutableGraph { context: self.context.clone(), handle: ptr::null_mut() };
        // SAFETY: the graph lives, and it writes one handle.
        unsafe { driver_call!(cuGraphInstantiateWithFlags(&mut graph.handle, self.handle, 0)) }?;
        Ok(graph)
    }
}

impl Drop for CapturedGraph {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the graph came from `cuStreamEndCapture`; what was instantiated from it stands on its own.
            let destroy = || unsafe { driver_call!(cuGraphDestroy(self.handle)) };
            release(self.context.enter().and_then(|_current| destroy()));
        }
    }
}

/// A graph that can be launched.
#[derive(Debug)]
pub struct ExecutableGraph {
    context: Context,
    handle: CUgraphExec,
}

// SAFETY: the driver allows a graph to be launched from any thread. It wants one call at a time for each graph, which
// is why this type is not `Sync`.
unsafe impl Send for ExecutableGraph {}

impl ExecutableGraph {
    /// Puts what the first launch needs on the device, in the order of `stream`, which belongs to the same context.
    ///
    /// # Errors
    ///
    /// `cuGraphUpload` failed.
    pub fn upload(&self, stream: RawStream<'_>) -> Result<(), DriverError> {
        let _current = self.context.enter()?;
        // SAFETY: graph and stream live.
        unsafe { driver_call!(cuGraphUpload(self.handle, stream.as_ptr().cast())) }
    }

    /// Runs the graph in the order of `stream`, which belongs to the same context. Does not wait.
    ///
    /// # Safety
    ///
    /// - All that the recorded work uses is still there, and stays until the stream has done it.
    ///
    /// # Errors
    ///
    /// `cuGraphLaunch` failed.
    pub unsafe fn launch(&self, stream: RawStream<'_>) -> Result<(), DriverError> {
        let _current = self.context.enter()?;
        // SAFETY: graph and stream live; the caller vouches for what was recorded.
        unsafe { driver_call!(cuGraphLaunch(self.handle, stream.as_ptr().cast())) }
    }
}

impl Drop for ExecutableGraph {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the graph came from `cuGraphInstantiateWithFlags`; a launch under way is finished by the driver.
            let destroy = || unsafe { driver_call!(cuGraphExecDestroy(self.handle)) };
            release(self.context.enter().and_then(|_current| destroy()));
        }
    }
}
