//! Tests of `raw.rs` on functions that write down how they were called, in place of NCCL's.

use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_int, c_void};
use std::path::Path;

use allfold::{RankBuffers, ReduceOp};
use half::bf16;

use super::NcclError;
use super::raw::{Functions, Nccl};

thread_local! {
    static CALLS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    /// The rank whose all-reduce fails.
    static FAILS: Cell<Option<usize>> = const { Cell::new(None) };
    static ASYNC_ERROR: Cell<c_int> = const { Cell::new(0) };
}

fn note(call: String) {
    CALLS.with_borrow_mut(|calls| calls.push(call));
}

fn calls() -> Vec<String> {
    CALLS.take()
}

unsafe extern "C" fn get_version(version: *mut c_int) -> c_int {
    // SAFETY: the caller passes a place for an integer.
    unsafe { version.write(22_703) };
    0
}

unsafe extern "C" fn get_error_string(_: c_int) -> *const c_char {
    c"planted".as_ptr()
}

/// The communicator of rank `r` is the number `r + 1`.
unsafe extern "C" fn comm_init_all(comms: *mut *mut c_void, devices: c_int, ordinals: *const c_int) -> c_int {
    // SAFETY: the caller passes two lists of that length.
    let (comms, ordinals) = unsafe {
        let devices = devices as usize;
        (std::slice::from_raw_parts_mut(comms, devices), std::slice::from_raw_parts(ordinals, devices))
    };
    for (rank, comm) in comms.iter_mut().enumerate() {
        *comm = std::ptr::without_provenance_mut(rank + 1);
    }
    note(format!("init {ordinals:?}"));
    0
}

unsafe extern "C" fn comm_get_async_error(_: *mut c_void, code: *mut c_int) -> c_int {
    // SAFETY: the caller passes a place for an integer.
    unsafe { code.write(ASYNC_ERROR.get()) };
    0
}

unsafe extern "C" fn comm_destroy(comm: *mut c_void) -> c_int {
    note(format!("destroy {}", comm.addr()));
    0
}

unsafe extern "C" fn group_start() -> c_int {
    note("start".into());
    0
}

unsafe extern "C" fn group_end() -> c_int {
    note("end".into());
    0
}

unsafe extern "C" fn all_reduce(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    data_type: c_int,
    op: c_int,
    comm: *mut c_void,
    stream: *mut c_void,
) -> c_int {
    let [input, output, comm, stream] = [input.addr(), output.addr(), comm.addr(), stream.addr()];
    note(format!("{input:#x} to {output:#x}, {count} of {data_type}, op {op}, comm {comm}, stream {stream:#x}"));
    if FAILS.get() == Some(comm - 1) { 4 } else { 0 }
}

/// NCCL with two ranks, on GPUs 0 and 1.
fn two_ranks() -> Nccl {
    // Tests may share a thread.
    calls();
    FAILS.set(None);
    ASYNC_ERROR.set(0);
    let functions = Functions {
        ncclGetVersion: get_version,
        ncclGetErrorString: get_error_string,
        ncclCommInitAll: comm_init_all,
        ncclCommGetAsyncError: comm_get_async_error,
        ncclCommDestroy: comm_destroy,
        ncclGroupStart: group_start,
        ncclGroupEnd: group_end,
        ncclAllReduce: all_reduce,
    };
    Nccl::new(functions, Path::new("fake"), &[0, 1]).expect("made")
}

fn buffers<T: allfold::Element>() -> Vec<RankBuffers<'static, T>> {
    let stream = |rank| std::ptr::without_provenance_mut(0x100 + rank);
    let of_rank = |rank: usize| {
        // SAFETY: nothing reads or writes them: they only go to functions that write their arguments down.
        unsafe { RankBuffers::device_raw(0x1_0000 * (rank as u64 + 1), 0x9_0000 * (rank as u64 + 1), 7, stream(rank)) }
    };
    (0..2).map(of_rank).collect()
}

#[test]
fn a_call_is_one_group_over_all_ranks() {
    let nccl = two_ranks();
    assert_eq!((nccl.version(), nccl.library()), ("2.27.3", Path::new("fake")));
    nccl.all_reduce(&buffers::<bf16>(), ReduceOp::Sum).expect("made");
    nccl.check().expect("nothing failed");
    drop(nccl);
    let expected = [
        "init [0, 1]",
        "start",
        "0x10000 to 0x90000, 7 of 9, op 0, comm 1, stream 0x100",
        "0x20000 to 0x120000, 7 of 9, op 0, comm 2, stream 0x101",
        "end",
        "destroy 1",
        "destroy 2",
    ];
    assert_eq!(calls(), expected);
}

#[test]
fn each_dtype_has_nccls_number() {
    let nccl = two_ranks();
    nccl.all_reduce(&buffers::<half::f16>(), ReduceOp::Sum).expect("made");
    nccl.all_reduce(&buffers::<f32>(), ReduceOp::Sum).expect("made");
    let calls = calls();
    assert!(calls[2].contains(", 7 of 6, ") && calls[6].contains(", 7 of 7, "), "{calls:?}");
}

#[test]
fn a_group_is_ended_also_where_a_call_fails() {
    let nccl = two_ranks();
    FAILS.set(Some(0));
    let error = nccl.all_reduce(&buffers::<f32>(), ReduceOp::Sum).expect_err("planted");
    assert!(matches!(error, NcclError::Call { call: "ncclAllReduce", code: 4, .. }), "{error:?}");
    assert_eq!(error.to_string(), "ncclAllReduce failed with code 4: planted");
    let calls = calls();
    assert_eq!((calls.len(), calls[3].as_str()), (4, "end"), "{calls:?}");
}

#[test]
fn an_error_after_the_call_is_found() {
    let nccl = two_ranks();
    ASYNC_ERROR.set(6);
    let error = nccl.check().expect_err("planted");
    assert!(matches!(error, NcclError::Call { code: 6, .. }), "{error:?}");
}

#[test]
fn what_nccl_cannot_take_is_refused_before_a_group_is_started() {
    let nccl = two_ranks();
    let mut host = [[0.0_f32; 4]; 2];
    let host: Vec<_> = host.iter_mut().map(|data| RankBuffers::in_place(data)).collect();
    let error = nccl.all_reduce(&host, ReduceOp::Sum).expect_err("host memory");
    assert!(matches!(error, NcclError::HostMemory { rank: 0 }), "{error:?}");
    let error = nccl.all_reduce(&buffers::<f32>()[..1], ReduceOp::Sum).expect_err("one rank of two");
    assert!(matches!(error, NcclError::Buffers(allfold::Error::RankCount { local: 2, got: 1 })), "{error:?}");
    assert_eq!(calls(), ["init [0, 1]"]);
}
