//! CUDA graphs: record calls once, replay them with one launch. Uses `raw.rs`.

use super::{
    raw::{Capture, CapturedGraph, Context, DriverError, ExecutableGraph},
    stream::RawStream,
};

/// Recorded work of one stream, ready to be replayed.
///
/// ```no_run
/// use allfold::cuda::Graph;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let stream = cust::stream::Stream::new(cust::stream::StreamFlags::NON_BLOCKING, None)?;
/// let graph = Graph::capture(&stream, |_stream| {
///     // Calls that put work into the stream: they record it, and run nothing.
///     Ok::<_, Box<dyn std::error::Error>>(())
/// })?;
/// // SAFETY: all that was recorded is still alive.
/// unsafe { graph.launch(&stream)? };
/// stream.synchronize()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Graph(ExecutableGraph);

impl Graph {
    /// Records what `record` puts into `stream`. The stream records no longer when this returns, also when `record`
    /// fails or panics. Other threads and streams go on as they like.
    ///
    /// # Errors
    ///
    /// What `record` returns, else what the driver says: the stream is a default one, is being captured already, is in
    /// a context that is not primary, or something that cannot be recorded was tried.
    pub fn capture<'s, E: From<DriverError>>(
        stream: impl Into<RawStream<'s>>,
        record: impl FnOnce(RawStream<'s>) -> Result<(), E>,
    ) -> Result<Self, E> {
        let stream = stream.into();
        let context = Context::of_stream(stream)?;
        let capture = Capture::begin(&context, stream)?;
        record(stream)?;
        Ok(Self(capture.end()?.instantiate()?))
    }

    /// Records what `record` puts into each of `streams`, a graph a stream, in the same order: with a stream for each
    /// rank, the graphs have to be launched together.
    ///
    /// # Errors
    ///
    /// As [`Graph::capture`]; no stream records any longer then.
    pub fn capture_all<E: From<DriverError>>(
        streams: &[RawStream<'_>],
        record: impl FnOnce() -> Result<(), E>,
    ) -> Result<Vec<Self>, E> {
        let contexts = streams.iter().map(|&stream| Context::of_stream(stream)).collect::<Result<Vec<_>, _>>()?;
        let begun = streams.iter().zip(&contexts).map(|(&stream, context)| Capture::begin(context, stream));
        let captures = begun.collect::<Result<Vec<_>, _>>()?;
        record()?;
        // Every capture has to end before anything is instantiated: that may allocate, which a capture forbids.
        let graphs = captures.into_iter().map(Capture::end).collect::<Result<Vec<_>, _>>()?;
        let graphs = graphs.into_iter().map(CapturedGraph::instantiate).collect::<Result<Vec<_>, _>>()?;
        Ok(graphs.into_iter().map(Self).collect())
    }

    /// Puts what the first launch needs on the device, in the order of `stream`, so that the first launch is as fast as
    /// the next.
    ///
    /// # Errors
    ///
    /// `cuGraphUpload` failed.
    pub fn upload<'s>(&self, stream: impl Into<RawStream<'s>>) -> Result<(), DriverError> {
        self.0.upload(stream.into())
    }

    /// Replays the recorded work in the order of `stream`, of the same device. Does not wait.
    ///
    /// # Safety
    ///
    /// - Buffers and communicators that were recorded live until the stream has done the work.
    ///
    /// # Errors
    ///
    /// `cuGraphLaunch` failed.
    pub unsafe fn launch<'s>(&self, stream: impl Into<RawStream<'s>>) -> Result<(), DriverError> {
        // SAFETY: the caller vouches for what was recorded.
        unsafe { self.0.launch(stream.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::driver;

    #[test]
    fn without_a_driver_a_capture_is_refused_and_records_nothing() {
        if driver::open().is_ok() {
            eprintln!("SKIPPED: this machine has a CUDA driver");
            return;
        }
        // SAFETY: null is the default stream.
        let stream = unsafe { RawStream::from_ptr(std::ptr::null_mut()) };
        let mut recorded = false;
        let one = Graph::capture(stream, |_| {
            recorded = true;
            Ok::<_, DriverError>(())
        });
        assert_eq!(one.expect_err("no driver").code, 100);
        let all = Graph::capture_all(&[stream, stream], || {
            recorded = true;
            Ok::<_, DriverError>(())
        });
        assert_eq!(all.expect_err("no driver").code, 100);
        assert!(!recorded);
    }
}
