//! Copies between the GPUs and on each, beside the calls: they fill links and memory, and wait for nobody.

use std::sync::atomic::{AtomicBool, Ordering};

use allfold::cuda::{Context, DeviceMemory, DriverError, Stream};

/// Large enough to keep a link busy, small enough to be over soon after the calls.
const COPY_BYTES: usize = 4 << 20;
/// Copies in flight on a GPU; then they are waited for.
const IN_FLIGHT: usize = 8;

/// Does `work` while each of `contexts` copies to the next one, and within itself.
pub fn beside<R, E: From<DriverError>>(contexts: &[Context], work: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let next = contexts.iter().cycle().skip(1);
        let over = &over;
        let copies: Vec<_> =
            contexts.iter().zip(next).map(|(from, to)| scope.spawn(move || copy_until(over, from, to))).collect();
        let done = work();
        over.store(true, Ordering::Relaxed);
        let copied = copies.into_iter().map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        let copied: Result<(), DriverError> = copied.collect();
        done.and_then(|result| Ok(copied.map(|()| result)?))
    })
}

fn copy_until(over: &AtomicBool, from: &Context, to: &Context) -> Result<(), DriverError> {
    let stream = Stream::new(from)?;
    let (source, here) = (DeviceMemory::alloc(from, COPY_BYTES)?, DeviceMemory::alloc(from, COPY_BYTES)?);
    let there = DeviceMemory::alloc(to, COPY_BYTES)?;
    let copies = || {
        for copy in 0..IN_FLIGHT {
            let (peer, sink) = if copy % 2 == 0 { (to, &there) } else { (from, &here) };
            // SAFETY: three allocations of this thread's own, each of `COPY_BYTES` on the GPU that is named for it, and
            // they live until the stream was waited for.
            unsafe { from.copy_to_peer_async(peer, sink.address(), source.address(), COPY_BYTES, stream.raw()) }?;
        }
        Ok(())
    };
    while !over.load(Ordering::Relaxed) {
        let copied = copies();
        stream.synchronize()?;
        copied?;
    }
    Ok(())
}
