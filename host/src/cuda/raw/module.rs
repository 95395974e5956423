//! Modules and kernels: from PTX text to a launch.

use std::{
    ffi::{CStr, CString, c_int, c_void},
    ptr,
    sync::Arc,
};

use cust::sys::{CUfunction, CUfunction_attribute, CUjit_option, CUmodule, CUresult};

use super::{Context, DriverError, check, driver_call, launch_ex, release};
use crate::cuda::{driver, stream::RawStream};

/// How much of its log the driver's compiler may write, in bytes.
const LOG_BYTES: usize = 16 * 1024;

/// PTX that was not loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("PTX was not loaded: {source}{}{log}", if log.is_empty() { "" } else { "\n" })]
pub struct LoadError {
    /// The call that failed: code 222 for a PTX version newer than the driver, 218 and 209 for other refusals.
    pub source: DriverError,
    /// What the driver's compiler wrote; empty if it wrote nothing.
    pub log: String,
}

/// Kernels loaded into a context, unloaded when the last clone and the last [`Function`] are dropped.
#[derive(Debug, Clone)]
pub struct Module(Arc<Loaded>);

#[derive(Debug)]
struct Loaded {
    context: Context,
    handle: CUmodule,
}

// SAFETY: the driver allows a module to be used by many threads at once.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl Module {
    /// Compiles `ptx` for the context's device and loads it.
    ///
    /// # Errors
    ///
    /// [`LoadError`] with the driver's code and its compiler's log.
    pub fn load(context: &Context, ptx: &str) -> Result<Self, LoadError> {
        let without_log = |source| LoadError { source, log: String::new() };
        let image = terminated("cuModuleLoadDataEx", ptx).map_err(without_log)?;
        let _current = context.enter().map_err(without_log)?;
        let mut log = vec![0_u8; LOG_BYTES];
        let mut names = [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        // The driver takes numbers in the place of pointers. It may use one byte less than there are: a zero stays.
        let mut values = [log.as_mut_ptr().cast::<c_void>(), ptr::without_provenance_mut(LOG_BYTES - 1)];
        let mut handle = ptr::null_mut();
        let (count, text) = (names.len() as u32, image.as_ptr().cast());
        // SAFETY: the text ends with a zero, and both arrays are as long as `count` says.
        let loaded = unsafe {
            driver_call!(cuModuleLoadDataEx(&mut handle, text, count, names.as_mut_ptr(), values.as_mut_ptr()))
        };
        loaded.map_err(|source| {
            let log = CStr::from_bytes_until_nul(&log).unwrap_or_default().to_string_lossy().trim().to_owned();
            LoadError { source, log }
        })?;
        Ok(Self(Arc::new(Loaded { context: context.clone(), handle })))
    }

    /// The kernel with this name, its code on the device: no launch waits for lazy loading.
    ///
    /// # Errors
    ///
    /// `cuModuleGetFunction` failed (code 500: no such kernel), or `cuFuncLoad` or `cuFuncGetAttribute` did.
    pub fn function(&self, name: &str) -> Result<Function, DriverError> {
        let name = terminated("cuModuleGetFunction", name)?;
        let _current = self.0.context.enter()?;
        let mut handle = ptr::null_mut();
        // SAFETY: the name ends with a zero, and it writes one handle.
        unsafe { driver_call!(cuModuleGetFunction(&mut handle, self.0.handle, name.as_ptr())) }?;
        // Since 12.4. Older drivers load a kernel when they are asked for it.
        // SAFETY: this is the function's type.
        if let Some(load) = unsafe { driver::symbol::<unsafe extern "C" fn(CUfunction) -> c_int>("cuFuncLoad") } {
            // SAFETY: the handle is a kernel of a module that lives.
            check("cuFuncLoad", driver::call("cuFuncLoad", || unsafe { load(handle) }))?;
        }
        let attribute = |which| {
            let mut value = 0;
            // SAFETY: it writes one integer.
            unsafe { driver_call!(cuFuncGetAttribute(&mut value, which, handle)) }.map(|()| value.unsigned_abs())
        };
        let attributes = FunctionAttributes {
            registers: attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            local_bytes: attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            shared_bytes: attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            max_threads: attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        };
        Ok(Function { module: self.clone(), handle, attributes })
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: the module is this context's, and every `Function` of it is gone.
        let unload = || unsafe { driver_call!(cuModuleUnload(self.handle)) };
        release(self.context.enter().and_then(|_current| unload()));
    }
}

/// What the driver's compiler made of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionAttributes {
    /// Registers a thread uses.
    pub registers: u32,
    /// Local memory a thread uses, in bytes: stack and spills.
    pub local_bytes: u32,
    /// Static shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// The most threads a block may have.
    pub max_threads: u32,
}

/// When a kernel may become resident.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// When all that is before it in its stream has ended.
    InOrder,
    /// When the kernel before it lets it (programmatic dependent launch). Where the driver cannot capture such a launch: in
    /// order.
    Early,
}

/// A kernel; keeps its module loaded.
#[derive(Debug, Clone)]
pub struct Function {
    module: Module,
    handle: CUfunction,
    attributes: FunctionAttributes,
}

// SAFETY: the driver allows a kernel to be launched by many threads at once.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Function {
    /// What the driver's compiler made of it.
    pub fn attributes(&self) -> FunctionAttributes {
        self.attributes
    }

    /// The context that it is loaded in.
    pub fn context(&self) -> &Context {
        &self.module.0.context
    }

    /// How many of its blocks one multiprocessor holds at once, with `threads` threads a block and `shared_bytes` bytes
    /// of dynamic shared memory.
    ///
    /// # Errors
    ///
    /// `cuOccupancyMaxActiveBlocksPerMultiprocessor` failed.
    pub fn max_active_blocks(&self, threads: u32, shared_bytes: u32) -> Result<u32, DriverError> {
        let _current = self.context().enter()?;
        let mut blocks = 0;
        let threads = c_int::try_from(threads).unwrap_or(c_int::MAX);
        let shared_bytes = shared_bytes as usize;
        // SAFETY: it writes one integer.
        unsafe {
            driver_call!(cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, self.handle, threads, shared_bytes))
        }?;
        Ok(blocks.unsigned_abs())
    }

    /// Launches a one-dimensional grid in the order of `stream`, which belongs to the same context. Does not wait.
    ///
    /// # Safety
    ///
    /// - `arguments` has a pointer to each of the kernel's parameters, in order, of its size and alignment.
    /// - What the kernel does with them is sound until the stream has done it.
    /// - [`Start::Early`]: the kernel waits for what is before it in the stream before it touches anything.
    ///
    /// # Errors
    ///
    /// `cuLaunchKernel` or `cuLaunchKernelEx` failed. It may report a failure of earlier, asynchronous work.
    pub unsafe fn launch(
        &self,
        (blocks, threads): (u32, u32),
        start: Start,
        stream: RawStream<'_>,
        arguments: &mut [*mut c_void],
    ) -> Result<(), DriverError> {
        let _current = self.context().enter()?;
        let (function, stream, arguments) = (self.handle, stream.as_ptr().cast(), arguments.as_mut_ptr());
        // SAFETY: the caller vouches for arguments and start; kernel and stream live.
        unsafe {
            match launch_ex::function().filter(|_| start == Start::Early) {
                Some(launch) => launch_ex::early(launch, function, blocks, threads, stream, arguments),
                None => {
                    let none = ptr::null_mut();
                    driver_call!(cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, none))
                }
            }
        }
    }
}

/// `text` with a zero at its end, or the failure that `call` would be with one inside.
fn terminated(call: &'static str, text: &str) -> Result<CString, DriverError> {
    CString::new(text).map_err(|error| DriverError {
        call,
        code: CUresult::CUDA_ERROR_INVALID_VALUE as i32,
        text: format!("the text has a zero byte at {}", error.nul_position()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zero_inside_a_text_is_a_typed_error() {
        let error = terminated("cuModuleGetFunction", "one\0shot").expect_err("a zero inside");
        assert_eq!((error.call, error.code), ("cuModuleGetFunction", 1));
        assert!(error.text.ends_with("at 3"), "{error}");
    }

    #[test]
    fn a_load_error_shows_the_log_on_its_own_lines() {
        let source = DriverError { call: "cuModuleLoadDataEx", code: 218, text: "CUDA_ERROR_INVALID_PTX".into() };
        let error = LoadError { source: source.clone(), log: "ptxas: line 7".into() };
        assert!(error.to_string().ends_with("CUDA_ERROR_INVALID_PTX\nptxas: line 7"), "{error}");
        let error = LoadError { source, log: String::new() };
        assert!(error.to_string().ends_with("CUDA_ERROR_INVALID_PTX"), "{error}");
    }
}
