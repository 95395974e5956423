//! NCCL's functions, as `nccl.h` declares them, and the communicators made with them: the only file that calls them.
//! Uses `libloading`, and the library's buffers and streams by their raw addresses.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

use allfold::{Dtype, Element, Place, RankBuffers, ReduceOp, Request};
use libloading::Library;

use super::NcclError;

/// A communicator: NCCL's `ncclComm_t`.
type Comm = *mut c_void;

const SUCCESS: c_int = 0;

/// NCCL's `ncclDataType_t`.
const fn data_type(dtype: Dtype) -> c_int {
    match dtype {
        Dtype::I8 => 0,
        Dtype::U8 => 1,
        Dtype::I32 => 2,
        Dtype::U32 => 3,
        Dtype::I64 => 4,
        Dtype::U64 => 5,
        Dtype::F16 => 6,
        Dtype::F32 => 7,
        Dtype::F64 => 8,
        Dtype::Bf16 => 9,
        Dtype::E4m3 => 10,
        Dtype::E5m2 => 11,
    }
}

/// NCCL's `ncclRedOp_t`.
const fn reduction(op: ReduceOp) -> c_int {
    match op {
        ReduceOp::Sum => 0,
        ReduceOp::Product => 1,
        ReduceOp::Max => 2,
        ReduceOp::Min => 3,
        ReduceOp::Avg => 4,
    }
}

/// Defines [`Functions`]: an address for each function, and how all are found.
macro_rules! functions {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        /// NCCL's functions under their own names. C's enums are integers here.
        #[allow(non_snake_case)]
        #[derive(Clone, Copy)]
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($argument: $type),*) -> $result,)*
        }

        impl Functions {
            /// Looks all of them up; the name of the first that `library` lacks.
            fn find(library: &Library) -> Result<Functions, &'static str> {
                Ok(Functions {
                    $($name: {
                        // SAFETY: every version of NCCL's major version 2 has this function with this type.
                        let symbol = unsafe {
                            library.get::<unsafe extern "C" fn($($argument: $type),*) -> $result>(stringify!($name))
                        };
                        *symbol.map_err(|_| stringify!($name))?
                    },)*
                })
            }
        }
    };
}

functions! {
    fn ncclGetVersion(version: *mut c_int) -> c_int;
    fn ncclGetErrorString(code: c_int) -> *const c_char;
    fn ncclCommInitAll(comms: *mut Comm, devices: c_int, ordinals: *const c_int) -> c_int;
    fn ncclCommGetAsyncError(comm: Comm, code: *mut c_int) -> c_int;
    fn ncclCommDestroy(comm: Comm) -> c_int;
    fn ncclGroupStart() -> c_int;
    fn ncclGroupEnd() -> c_int;
    fn ncclAllReduce(input: *const c_void, output: *mut c_void, count: usize, data_type: c_int, op: c_int, comm: Comm, stream: *mut c_void) -> c_int;
}

/// NCCL, opened, with a communicator for each rank. All calls are made by one thread, which the type is bound to.
pub struct Nccl {
    functions: Functions,
    library: PathBuf,
    version: String,
    /// `[rank]`.
    comms: Vec<Comm>,
}

impl Nccl {
    /// Opens `library`, and makes a rank on each of `ordinals`, which [`super::check_ranks`] has passed. It stays open for the
    /// life of the process: NCCL has threads, and the CUDA runtime in it.
    pub fn open(library: &Path, ordinals: &[u32]) -> Result<Nccl, NcclError> {
        let missing = |error: libloading::Error| {
            // The linker's own sentence is the error's source, and starts with the name that is said already.
            let said = std::error::Error::source(&error).unwrap_or(&error).to_string();
            let reason = said.strip_prefix(&format!("{}: ", library.display())).unwrap_or(&said).to_owned();
            NcclError::Missing { library: library.to_owned(), reason }
        };
        // SAFETY: NCCL's initialisers ask nothing of whoever opens it. Of another file the user answers for that.
        let opened = unsafe { Library::new(library) }.map_err(missing)?;
        let functions =
            Functions::find(&opened).map_err(|symbol| NcclError::NoSymbol { library: library.to_owned(), symbol })?;
        std::mem::forget(opened);
        Nccl::new(functions, library, ordinals)
    }

    /// The same with its functions at hand.
    pub(super) fn new(functions: Functions, library: &Path, ordinals: &[u32]) -> Result<Nccl, NcclError> {
        let mut nccl = Nccl { functions, library: library.to_owned(), version: String::new(), comms: Vec::new() };
        let mut version = 0;
        // SAFETY: it writes one integer.
        nccl.done("ncclGetVersion", unsafe { (functions.ncclGetVersion)(&mut version) })?;
        nccl.version = version_in_words(version);
        let ordinals: Vec<c_int> = ordinals.iter().map(|&ordinal| ordinal as c_int).collect();
        let mut comms = vec![ptr::null_mut(); ordinals.len()];
        // SAFETY: both lists have as many entries as it is told; it writes one handle for each.
        let code = unsafe { (functions.ncclCommInitAll)(comms.as_mut_ptr(), comms.len() as c_int, ordinals.as_ptr()) };
        nccl.done("ncclCommInitAll", code)?;
        nccl.comms = comms;
        Ok(nccl)
    }

    /// What it was opened as.
    pub fn library(&self) -> &Path {
        &self.library
    }

    /// As `2.27.3`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Puts an all-reduce into the stream of each rank, all of them in one group: with one thread for several GPUs, the
    /// first call would else wait for the second. Asynchronous; where the streams are being captured, it is recorded.
    pub fn all_reduce<T: Element>(&self, buffers: &[RankBuffers<'_, T>], op: ReduceOp) -> Result<(), NcclError> {
        let raw: Vec<_> = buffers.iter().map(RankBuffers::raw).collect();
        let count = Request::new(self.comms.len(), T::DTYPE, op, &raw)?.elems as usize;
        let stream = |(rank, place)| match place {
            Place::Device(stream) => Ok(stream),
            Place::Host => Err(NcclError::HostMemory { rank }),
        };
        let streams = raw.iter().map(|b| b.place).enumerate().map(stream).collect::<Result<Vec<_>, _>>()?;
        // SAFETY: it takes nothing; the group is ended below, whatever comes between.
        self.done("ncclGroupStart", unsafe { (self.functions.ncclGroupStart)() })?;
        let put = raw.iter().zip(streams).zip(&self.comms).try_for_each(|((b, stream), &comm)| {
            let (input, output) = (b.input as *const c_void, b.output as *mut c_void);
            // SAFETY: `RankBuffers` vouch for both buffers, of `count` elements, and for the stream of the rank's GPU, until
            // the stream has passed the call; the communicator lives as long as `self`.
            let code = unsafe {
                (self.functions.ncclAllReduce)(
                    input,
                    output,
                    count,
                    data_type(T::DTYPE),
                    reduction(op),
                    comm,
                    stream.as_ptr(),
                )
            };
            self.done("ncclAllReduce", code)
        });
        // SAFETY: it takes nothing; this thread has a group open.
        let ended = self.done("ncclGroupEnd", unsafe { (self.functions.ncclGroupEnd)() });
        put.and(ended)
    }

    /// That no call has failed after it was made.
    pub fn check(&self) -> Result<(), NcclError> {
        self.comms.iter().try_for_each(|&comm| {
            let mut failed = SUCCESS;
            // SAFETY: the communicator lives, and it writes one integer.
            let code = unsafe { (self.functions.ncclCommGetAsyncError)(comm, &mut failed) };
            self.done("ncclCommGetAsyncError", code)?;
            self.done("ncclAllReduce", failed)
        })
    }

    fn done(&self, call: &'static str, code: c_int) -> Result<(), NcclError> {
        if code == SUCCESS {
            return Ok(());
        }
        // SAFETY: it takes any code, and points to a string that lives as long as the library, which is never closed.
        let text = unsafe { CStr::from_ptr((self.functions.ncclGetErrorString)(code)) };
        Err(NcclError::Call { call, code, text: text.to_string_lossy().into_owned() })
    }
}

impl Drop for Nccl {
    /// Graphs with its calls are gone by then: NCCL would wait for them.
    fn drop(&mut self) {
        for &comm in &self.comms {
            // SAFETY: the communicator came from `ncclCommInitAll`, and is destroyed once.
            if let Err(error) = self.done("ncclCommDestroy", unsafe { (self.functions.ncclCommDestroy)(comm) }) {
                tracing::warn!(%error, "could not be released");
            }
        }
    }
}

/// A version as NCCL numbers it: 2804 is 2.8.4, and from 2.9 on 22703 is 2.27.3.
fn version_in_words(version: c_int) -> String {
    let major = if version < 10_000 { 1000 } else { 10_000 };
    format!("{}.{}.{}", version / major, version % major / 100, version % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_both_numberings() {
        for (version, words) in [(2804, "2.8.4"), (20_906, "2.9.6"), (22_703, "2.27.3"), (23_000, "2.30.0")] {
            assert_eq!(version_in_words(version), words);
        }
    }

    #[test]
    fn a_library_that_is_not_there_is_named_with_what_to_do() {
        for library in [Path::new("liballfold-no-such-nccl.so"), Path::new("/no/such/folder/libnccl.so.2")] {
            let error = Nccl::open(library, &[0, 1]).err().expect("no such library");
            assert!(matches!(&error, NcclError::Missing { library: named, .. } if named == library), "{error:?}");
            let said = error.to_string();
            let start = format!("cannot open NCCL, {}: cannot open shared object file", library.display());
            assert!(said.starts_with(&start), "{said}");
            assert!(said.contains("nvidia/nccl/lib/libnccl.so.2: name the file with --nccl-library"), "{said}");
        }
    }

    #[test]
    fn a_library_that_is_not_nccl_is_refused() {
        let error = Nccl::open(Path::new("libc.so.6"), &[0, 1]).err().expect("the C library is no NCCL");
        assert_eq!(error.to_string(), "libc.so.6 is not NCCL, or too old: it has no ncclGetVersion");
    }
}
