//! The CUDA driver, opened at run time. May use `libloading` and `cust::sys`, and nothing else of this crate.
//!
//! `cust` is written for a driver that the linker finds. This crate defines the driver's functions itself (one line
//! each in `driver/symbols.rs`), so that one program starts on every machine: each function looks its address up in
//! `libcuda.so.1` at its first call, keeps it, and forwards. Without a driver it returns `CUDA_ERROR_NO_DEVICE`, and
//! `CUDA_ERROR_NOT_FOUND` where the driver lacks it.
//!
//! A program may link the real `libcuda` as well: whichever definition the linker takes, the call ends in that one
//! library, and so it does where a shared library made from this crate exports these names. What fails, when linking
//! and not later: a second crate that *defines* these names (a duplicate symbol), and a crate that links functions
//! newer than CUDA 11.4 with `-lcuda`, which the linker answers with the empty archive of `build.rs`; such a crate has
//! to name the file (`cargo::rustc-link-lib=dylib:+verbatim=libcuda.so`).

use std::{
    error::Error,
    ffi::{c_char, c_int, c_void},
    ptr::{self, NonNull},
    sync::{
        OnceLock,
        atomic::{AtomicPtr, Ordering},
    },
};

use cust::sys::CUresult;
use libloading::Library;

#[cfg(feature = "driver-faults")]
pub(crate) mod faults;
pub(crate) mod symbols;

/// The driver's file name on Linux, resolved by the dynamic linker as usual (`LD_LIBRARY_PATH`, its cache, its
/// folders).
const LIBRARY: &str = "libcuda.so.1";

/// The opened driver. It stays open for the life of the process.
#[derive(Debug)]
pub struct Driver {
    functions: Functions,
    version: (u32, u32),
}

/// Where its functions are.
#[derive(Debug)]
enum Functions {
    Library(Library),
    /// Those of a test.
    #[cfg(feature = "driver-faults")]
    Given(faults::Functions),
}

impl Driver {
    /// The newest CUDA version that the driver serves, as (major, minor).
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    fn open(name: &'static str) -> Result<Self, DriverMissing> {
        let missing = |reason: String| DriverMissing { tried: name, reason };
        // The linker's own sentence is the error's source.
        let linker = |error: libloading::Error| missing(error.source().unwrap_or(&error).to_string());
        // SAFETY: the initialisers of NVIDIA's driver library ask nothing of whoever opens it.
        let library = unsafe { Library::new(name) }.map_err(linker)?;
        // SAFETY: this is the function's type in every version of the driver.
        let function = unsafe { library.get::<unsafe extern "C" fn(*mut c_int) -> c_int>("cuDriverGetVersion") };
        let function = *function.map_err(linker)?;
        let mut version = 0;
        // SAFETY: it writes one integer, and may be called before `cuInit`.
        let code = unsafe { function(&mut version) };
        match u32::try_from(version) {
            Ok(version) if code == 0 && version > 0 => {
                Ok(Self { functions: Functions::Library(library), version: (version / 1000, version % 1000 / 10) })
            }
            _ => Err(missing(format!("{name} opens, but its cuDriverGetVersion returns {code}"))),
        }
    }

    fn address(&self, name: &str) -> Option<NonNull<c_void>> {
        #[cfg_attr(
            not(feature = "driver-faults"),
            expect(clippy::infallible_destructuring_match, reason = "with that feature there are two")
        )]
        let library = match &self.functions {
            Functions::Library(library) => library,
            #[cfg(feature = "driver-faults")]
            Functions::Given(look_up) => return look_up(name),
        };
        // SAFETY: only the address is taken here; whoever calls it answers for the type.
        let symbol = unsafe { library.get::<*mut c_void>(name) };
        symbol.ok().and_then(|symbol| NonNull::new(*symbol))
    }
}

/// There is no CUDA driver that this process can use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no CUDA driver: {reason}")]
pub struct DriverMissing {
    /// The library that was asked for.
    pub tried: &'static str,
    /// What the dynamic linker, or the library, answered.
    pub reason: String,
}

/// The driver, opened by the first call in the process.
///
/// # Errors
///
/// [`DriverMissing`] when there is none, now and in every later call.
pub fn open() -> Result<&'static Driver, DriverMissing> {
    static DRIVER: OnceLock<Result<Driver, DriverMissing>> = OnceLock::new();
    let first = || {
        #[cfg(feature = "driver-faults")]
        if let Some((functions, version)) = faults::given() {
            return Ok(Driver { functions: Functions::Given(functions), version });
        }
        Driver::open(LIBRARY)
    };
    DRIVER.get_or_init(first).as_ref().map_err(Clone::clone)
}

/// A driver function newer than `cust::sys` knows, or `None` where there is no driver or it lacks the function.
///
/// # Safety
///
/// - `F` is the function's pointer type, with the `C` calling convention.
pub(crate) unsafe fn symbol<F: Copy>(name: &str) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>(), "F is a function pointer") }
    let address = open().ok()?.address(name)?.as_ptr();
    // SAFETY: the sizes are equal, and the caller vouches that `F` is the type of what is there.
    Some(unsafe { std::mem::transmute_copy(&address) })
}

/// The code of `function`, which was found by [`symbol`] under `name`: all calls of those are made here.
pub(crate) fn call(name: &'static str, function: impl FnOnce() -> c_int) -> c_int {
    #[cfg(feature = "driver-faults")]
    if let Some(code) = faults::fault(name) {
        return code;
    }
    let _ = name;
    function()
}

/// Where a function was found: looked up at the first call, remembered once found.
pub(crate) struct Slot(AtomicPtr<c_void>);

impl Slot {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The function's address, or the code that a call of it returns instead.
    #[inline]
    pub(crate) fn address(&self, name: &str) -> Result<NonNull<c_void>, c_int> {
        // Relaxed is enough: every lookup finds the same code, which was mapped before its address was known.
        match NonNull::new(self.0.load(Ordering::Relaxed)) {
            Some(address) => Ok(address),
            None => self.look_up(name),
        }
    }

    #[cold]
    fn look_up(&self, name: &str) -> Result<NonNull<c_void>, c_int> {
        let driver = open().map_err(|_| CUresult::CUDA_ERROR_NO_DEVICE as c_int)?;
        let address = driver.address(name).ok_or(CUresult::CUDA_ERROR_NOT_FOUND as c_int)?;
        self.0.store(address.as_ptr(), Ordering::Relaxed);
        Ok(address)
    }
}

/// Defines each function twice: for this crate, with the driver's code as it is, and under its C name for `cust`,
/// with a code that `cust`'s enum has.
macro_rules! forward {
    ($(fn $name:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[inline]
        pub(crate) unsafe fn $name($($argument: $type),*) -> std::ffi::c_int {
            #[cfg(feature = "driver-faults")]
            if let Some(code) = $crate::cuda::driver::faults::fault(stringify!($name)) {
                return code;
            }
            static SLOT: $crate::cuda::driver::Slot = $crate::cuda::driver::Slot::new();
            match SLOT.address(stringify!($name)) {
                Ok(address) => {
                    type Function = unsafe extern "C" fn($($type),*) -> std::ffi::c_int;
                    // SAFETY: the driver's function of this name has the type that `cust_raw` declares.
                    let function = unsafe { std::mem::transmute::<std::ptr::NonNull<c_void>, Function>(address) };
                    // SAFETY: the caller keeps the driver's contract for these arguments.
                    unsafe { function($($argument),*) }
                }
                Err(code) => code,
            }
        }
        const _: () = {
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) -> cust::sys::CUresult {
                // SAFETY: the caller keeps the driver's contract for these arguments.
                known(unsafe { self::$name($($argument),*) })
            }
        };
    )*};
}
pub(crate) use forward;

/// Defines `known`: a driver's code as a value of `cust`'s enum. A newer driver has codes that the enum lacks, and
/// an enum must never hold them: they become `CUDA_ERROR_UNKNOWN`.
macro_rules! codes {
    ($($name:ident)*) => {
        fn known(code: std::ffi::c_int) -> cust::sys::CUresult {
            $(if code == cust::sys::CUresult::$name as std::ffi::c_int {
                return cust::sys::CUresult::$name;
            })*
            cust::sys::CUresult::CUDA_ERROR_UNKNOWN
        }
    };
}
pub(crate) use codes;

/// The two functions that turn a code into text. Written by hand, because they have to answer without a driver as
/// well: `cust` panics when it displays an error and they fail.
macro_rules! texts {
    ($($name:ident)*) => {$(
        /// Points `text` to the driver's text for `code`, or to one of ours where it has none. Always returns 0.
        #[allow(non_snake_case)]
        pub(crate) unsafe fn $name(code: c_int, text: *mut *const c_char) -> c_int {
            static SLOT: Slot = Slot::new();
            let fallback = match SLOT.address(stringify!($name)) {
                Ok(address) => {
                    type Function = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;
                    // SAFETY: the driver's function of this name has this type.
                    let function = unsafe { std::mem::transmute::<NonNull<c_void>, Function>(address) };
                    // SAFETY: the caller passes a pointer that can be written to.
                    if unsafe { function(code, text) } == 0 {
                        return 0;
                    }
                    c"a code that this driver does not explain"
                }
                Err(_) => c"there is no CUDA driver here",
            };
            // SAFETY: the caller passes a pointer that can be written to.
            unsafe { text.write(fallback.as_ptr()) };
            0
        }
        const _: () = {
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(code: CUresult, text: *mut *const c_char) -> CUresult {
                // SAFETY: the caller passes a pointer that can be written to.
                unsafe { self::$name(code as c_int, text) };
                CUresult::CUDA_SUCCESS
            }
        };
    )*};
}
texts! { cuGetErrorName cuGetErrorString }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named_with_the_linkers_reason() {
        let missing = Driver::open("liballfold-no-such-driver.so").expect_err("no such library");
        assert_eq!(missing.tried, "liballfold-no-such-driver.so");
        assert!(missing.to_string().contains("cannot open shared object file"), "{missing}");
    }

    #[test]
    fn a_library_that_is_no_driver_is_refused() {
        let missing = Driver::open("libc.so.6").expect_err("the C library is no driver");
        assert!(missing.reason.contains("cuDriverGetVersion"), "{missing}");
    }

    #[test]
    fn cust_gets_a_typed_error_and_a_text_without_a_driver() {
        if open().is_ok() {
            eprintln!("SKIPPED: this machine has a CUDA driver");
            return;
        }
        let error = cust::init(cust::CudaFlags::empty()).expect_err("no driver");
        assert_eq!(error, cust::error::CudaError::NoDevice);
        assert!(error.to_string().contains("no CUDA driver"), "{error}");
        // SAFETY: without a driver there is no function at all, whatever its type.
        assert!(unsafe { symbol::<unsafe extern "C" fn() -> c_int>("cuFuncLoad") }.is_none());
    }

    #[test]
    fn a_function_that_the_driver_lacks_is_not_found() {
        let code = Slot::new().address("cuNoSuchFunction").expect_err("no such function");
        let expected = if open().is_ok() { CUresult::CUDA_ERROR_NOT_FOUND } else { CUresult::CUDA_ERROR_NO_DEVICE };
        assert_eq!(code, expected as c_int);
    }
}
