//! Launches with attributes, which `cust::sys` does not know: the types are those of `cuda.h` since 11.8.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use cust::sys::{CUfunction, CUstream};

use super::{DriverError, check};
use crate::cuda::driver;

/// `CUlaunchConfig`.
#[repr(C)]
pub(super) struct Config {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: CUstream,
    attributes: *mut Attribute,
    attribute_count: u32,
}

/// `CUlaunchAttribute`: a number, then a union of 64 bytes.
#[repr(C, align(8))]
struct Attribute {
    id: u32,
    padding: u32,
    value: [u32; 16],
}

/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`, whose value is an integer, 1 for yes.
const PROGRAMMATIC_STREAM_SERIALIZATION: u32 = 6;

const NAME: &str = "cuLaunchKernelEx";

/// `cuLaunchKernelEx`.
pub(super) type LaunchKernelEx =
    unsafe extern "C" fn(*const Config, CUfunction, *mut *mut c_void, *mut *mut c_void) -> c_int;

/// The oldest driver that is asked: the function is there since 11.8, but such launches can be captured since 12.3.
const OLDEST: (u32, u32) = (12, 3);

/// The driver's function; `None` where such a launch cannot be captured.
pub(super) fn function() -> Option<LaunchKernelEx> {
    static FOUND: OnceLock<Option<LaunchKernelEx>> = OnceLock::new();
    // SAFETY: this is the function's type.
    let find = || unsafe { driver::symbol(NAME) };
    *FOUND.get_or_init(|| driver::open().is_ok_and(|driver| driver.version() >= OLDEST).then(find).flatten())
}

/// Launches a one-dimensional grid that may become resident when the kernel before it lets it.
///
/// # Safety
///
/// As for [`super::Function::launch`], in a context that is current.
pub(super) unsafe fn early(
    launch: LaunchKernelEx,
    function: CUfunction,
    blocks: u32,
    threads: u32,
    stream: CUstream,
    arguments: *mut *mut c_void,
) -> Result<(), DriverError> {
    let mut attribute = Attribute { id: PROGRAMMATIC_STREAM_SERIALIZATION, padding: 0, value: [0; 16] };
    attribute.value[0] = 1;
    let config = Config {
        grid: [blocks, 1, 1],
        block: [threads, 1, 1],
        shared_bytes: 0,
        stream,
        attributes: &mut attribute,
        attribute_count: 1,
    };
    // SAFETY: the configuration and its attribute live through the call; the rest by the caller's promise.
    let launch = || unsafe { launch(&config, function, arguments, std::ptr::null_mut()) };
    check(NAME, driver::call(NAME, launch))
}

const _: () = assert!(size_of::<Attribute>() == 72 && size_of::<Config>() == 56);
