//! The spans of `tracing` by which a communicator can be watched: names and fields, and nothing else. One that nobody has asked for
//! costs the look at an atomic; it asks for no memory and takes no lock.
//!
//! | span | level | fields |
//! |---|---|---|
//! | `create` | debug | `backend`, `world` |
//! | `connect` | debug | `backend`, `rank`, `world` |
//! | `split` | debug | `rank`, `world` |
//! | `self_test` | debug | `rank`, `world` |
//! | `register` | debug | `rank`, `bytes` |
//! | `release`, `finish_capture`, `capture` | debug | `rank` |
//! | `plan` | trace | `dtype`, `op`, `elems`, `bytes`, `in_place` |
//! | `launch` | trace | `algorithm`, `input`, `blocks`, `threads`, `dtype`, `op`, `bytes` |
//! | `replay` | trace | `rank` |

use tracing::{Span, debug_span, trace_span};

use crate::plan::Plan;
use crate::request::Request;

pub(crate) fn create(backend: &'static str, world: usize) -> Span {
    debug_span!("create", backend, world)
}

pub(crate) fn connect(backend: &'static str, rank: u32, world: u32) -> Span {
    debug_span!("connect", backend, rank, world)
}

pub(crate) fn split(rank: u32, world: u32) -> Span {
    debug_span!("split", rank, world)
}

/// `rank`: the first that this process drives, here and below.
pub(crate) fn self_test(rank: u32, world: u32) -> Span {
    debug_span!("self_test", rank, world)
}

pub(crate) fn register(rank: u32, bytes: u64) -> Span {
    debug_span!("register", rank, bytes)
}

pub(crate) fn release(rank: u32) -> Span {
    debug_span!("release", rank)
}

pub(crate) fn finish_capture(rank: u32) -> Span {
    debug_span!("finish_capture", rank)
}

pub(crate) fn capture(rank: u32) -> Span {
    debug_span!("capture", rank)
}

pub(crate) fn replay(rank: u32) -> Span {
    trace_span!("replay", rank)
}

pub(crate) fn plan(request: &Request) -> Span {
    let Request { dtype, op, elems, bytes, in_place, aligned: _ } = *request;
    trace_span!("plan", dtype = dtype.name(), op = op.name(), elems, bytes, in_place)
}

pub(crate) fn launch(request: &Request, plan: &Plan) -> Span {
    let Plan { algorithm, input, protocol: _, blocks, threads } = *plan;
    let (dtype, op, bytes) = (request.dtype.name(), request.op.name(), request.bytes);
    let (algorithm, input) = (algorithm.name(), input.name());
    trace_span!("launch", algorithm, input, blocks, threads, dtype, op, bytes)
}
