//! The floor: one checked function for each driver call that this crate makes. `cust::sys` is named here, in `raw/` and
//! in the driver loader, and nowhere else.
//!
//! Each function makes the context that it needs current and then restores the caller's, so none depends on what ran
//! before. What owns a handle releases it when dropped; a failure to release is logged, never a panic.

use std::ffi::{CStr, c_char, c_int};

use super::driver;

mod capture;
mod context;
mod copy;
mod device;
mod host_words;
mod ipc;
mod launch_ex;
mod memory;
mod module;
mod pointer;
mod shareable;
mod stream;

pub(crate) use capture::CapturingGraph;
pub use capture::{Capture, CapturedGraph, ExecutableGraph};
pub use context::{Context, Current};
pub use device::DeviceHandle;
pub(crate) use host_words::HostWords;
pub(crate) use ipc::{IPC_BYTES, IpcMemory};
pub use memory::DeviceMemory;
pub use module::{Function, Module, Start};
pub(crate) use pointer::{Pointer, PointerKind, Pool};
pub(crate) use shareable::{ShareableMemory, export};
pub use stream::{Event, Stream};

/// A driver call that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{call} failed with code {code}: {text}")]
pub struct DriverError {
    /// The driver's function.
    pub call: &'static str,
    /// What it returned: a `CUresult`.
    pub code: i32,
    /// The code's name, and what the driver says of it.
    pub text: String,
}

impl DriverError {
    #[cold]
    fn new(call: &'static str, code: c_int) -> Self {
        let text = |explain: unsafe fn(c_int, *mut *const c_char) -> c_int| {
            let mut text = c"".as_ptr();
            // SAFETY: both functions point `text` to a string that lives as long as the process, and never fail.
            unsafe { explain(code, &mut text) };
            // SAFETY: so a string is there, and it ends with a zero.
            unsafe { CStr::from_ptr(text) }.to_string_lossy()
        };
        let (name, explanation) = (text(driver::cuGetErrorName), text(driver::cuGetErrorString));
        Self { call, code, text: format!("{name}, {explanation}") }
    }
}

fn check(call: &'static str, code: c_int) -> Result<(), DriverError> {
    if code == 0 { Ok(()) } else { Err(DriverError::new(call, code)) }
}

/// `driver_call!(cuName(arguments))`: the driver's function, its code checked. Belongs in `unsafe`.
macro_rules! driver_call {
    ($name:ident($($argument:expr),*)) => {
        $crate::cuda::raw::check(stringify!($name), $crate::cuda::driver::symbols::$name($($argument),*))
    };
}
use driver_call;

/// Says in the log that something could not be released: all that a destructor can do about it.
fn release(result: Result<(), DriverError>) {
    if let Err(error) = result {
        tracing::warn!(%error, "could not be released");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_call_its_code_and_the_text() {
        let error = check("cuInit", 100).expect_err("100 is a failure");
        assert_eq!((error.call, error.code), ("cuInit", 100));
        assert!(error.to_string().starts_with("cuInit failed with code 100: "), "{error}");
        assert!(error.text.len() > ", ".len(), "{error}");
        assert_eq!(check("cuInit", 0), Ok(()));
    }

    #[test]
    fn without_a_driver_every_way_in_is_a_typed_error() {
        if driver::open().is_ok() {
            eprintln!("SKIPPED: this machine has a CUDA driver");
            return;
        }
        assert_eq!(DeviceHandle::count().expect_err("no driver").code, 100);
        assert_eq!(DeviceHandle::get(0).expect_err("no driver").code, 100);
        // SAFETY: null is the default stream.
        let stream = unsafe { crate::cuda::stream::RawStream::from_ptr(std::ptr::null_mut()) };
        let error = Context::of_stream(stream).expect_err("no driver");
        assert_eq!((error.call, error.code), ("cuStreamGetCtx", 100));
    }
}
