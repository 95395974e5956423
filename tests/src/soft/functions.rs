//! The driver's functions, by their names and with their types.
//!
//! Long: a function each. Handles are numbers, and structures those of `memory.rs`.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::os::fd::{BorrowedFd, IntoRawFd};
use std::ptr::NonNull;
use std::sync::Arc;

use allfold_kernels::protocol::abi::KernelArgs;

use super::memory::{self, Access, DEVICE_BYTES, GRANULARITY, Location, Properties};
use super::state::{
    Answer, ILLEGAL_STATE, INVALID_CONTEXT, INVALID_DEVICE, INVALID_HANDLE, INVALID_VALUE, NOT_FOUND,
    PEER_ACCESS_ALREADY_ENABLED, context_of, contexts, current, device, device_of, soft,
};
use super::stream::{Event, Graph, Object, Stream, Work, in_use, taken, wait_for_all};
use super::{DEVICES, kernel};

type Handle = *mut c_void;

/// `CUipcMemHandle`.
#[repr(C)]
struct Ipc([u8; 64]);

/// `CUlaunchConfig`, whose attributes ask for nothing that is kept here.
#[repr(C)]
struct Config {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    stream: Handle,
    attributes: *const c_void,
    attribute_count: c_uint,
}

/// Where something is written to.
///
/// # Safety
/// `to` can be written to.
unsafe fn put<T>(to: *mut T, value: T) -> Answer {
    // SAFETY: the caller's promise.
    unsafe { to.write(value) };
    Ok(())
}

/// Handles, from numbers.
fn handle(number: u64) -> Handle {
    number as usize as Handle
}

/// Puts a copy into `stream`. From or to the host it is done when this returns, as a driver has it for memory that is not pinned.
///
/// # Safety
/// Both are `bytes` long, until the stream has done it.
unsafe fn copy(to: u64, from: u64, bytes: usize, stream: Handle, host: bool) -> Answer {
    let stream = soft().stream(stream)?;
    // SAFETY: the caller's promise.
    let copy = move || unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
    stream.put(Work::new(&[to, from], copy))?;
    if host { stream.wait() } else { Ok(()) }
}

/// Puts a kernel into `stream`.
///
/// # Safety
/// The first of `arguments` points to the kernel's, which keep the contract of `kernel::run` until the stream has done it.
unsafe fn launch(function: Handle, blocks: c_uint, stream: Handle, arguments: *mut *mut c_void) -> Answer {
    let (entry_point, stream) = {
        let soft = soft();
        let entry_point = soft.functions.get(&(function as u64)).copied().ok_or(INVALID_HANDLE)?;
        (entry_point, soft.stream(stream)?)
    };
    // Its own context is current.
    if current()? != stream.device {
        return Err(INVALID_CONTEXT);
    }
    // SAFETY: the caller's promise.
    let args = unsafe { (*arguments).cast::<KernelArgs>().read() };
    // SAFETY: as above.
    stream.put(Work::new(&uses(&args), move || unsafe { kernel::run(entry_point, &args, blocks) }))
}

/// The addresses among `args`; those that are 0 are none.
fn uses(args: &KernelArgs) -> Vec<u64> {
    let own = [args.source, args.output, args.workspace, args.landing, args.host_board, args.row, args.marks];
    let all = own.into_iter().chain(args.landings).chain(args.inputs).chain(args.workspaces).chain(args.outputs);
    all.filter(|&address| address != 0).collect()
}

/// Blames whoever gives up `bytes` at `address` by `name` while a stream has work that uses them, and waits for all. A driver may not wait
/// there, and nobody is told that it does.
fn give_up(name: &str, address: u64, bytes: usize) {
    if in_use(&(address..address + bytes as u64)) {
        soft().blamed.push(format!("{name} of {bytes} bytes at {address:#x}, which a stream has still work for"));
    }
    wait_for_all(None);
}

macro_rules! functions {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $body:block)*) => {
        $(
            #[allow(non_snake_case, unused_unsafe, clippy::too_many_arguments, reason = "as a driver has them")]
            unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
                unsafe fn answer($($argument: $type),*) -> Answer {
                    // SAFETY: whoever calls a driver's function keeps its contract for these arguments.
                    unsafe { $body }
                }
                // SAFETY: as above.
                unsafe { answer($($argument),*) }.err().unwrap_or(0)
            }
        )*

        /// The function of this name.
        pub(super) fn look_up(name: &str) -> Option<NonNull<c_void>> {
            match name {
                $(stringify!($name) => NonNull::new($name as *mut c_void),)*
                _ => None,
            }
        }
    };
}

functions! {
    fn cuInit(_flags: c_uint) { Ok(()) }
    fn cuDeviceGetCount(count: *mut c_int) { put(count, DEVICES as c_int) }
    fn cuDeviceGet(to: *mut c_int, ordinal: c_int) {
        device(ordinal)?;
        put(to, ordinal)
    }
    fn cuDeviceGetName(to: *mut c_char, length: c_int, of: c_int) { text(to, length, &format!("software {of}")) }
    fn cuDeviceGetPCIBusId(to: *mut c_char, length: c_int, of: c_int) { text(to, length, &format!("0000:0{of}:00.0")) }
    fn cuDeviceGetUuid_v2(to: *mut [u8; 16], of: c_int) { put(to, [of as u8 + 1; 16]) }
    fn cuDeviceTotalMem_v2(to: *mut usize, _of: c_int) { put(to, DEVICE_BYTES) }
    fn cuDeviceGetAttribute(to: *mut c_int, attribute: c_int, of: c_int) {
        device(of)?;
        // Multiprocessors, and the compute capability.
        put(to, match attribute {
            16 => 32,
            75 => 9,
            _ => 0,
        })
    }
    fn cuDeviceCanAccessPeer(to: *mut c_int, from: c_int, peer: c_int) { put(to, (from != peer).into()) }
    fn cuDeviceGetP2PAttribute(to: *mut c_int, _attribute: c_int, from: c_int, peer: c_int) {
        if from == peer { Err(INVALID_DEVICE) } else { put(to, 0) }
    }
    fn cuDeviceGetMemPool(to: *mut Handle, of: c_int) { put(to, context_of(of) as Handle) }
    fn cuMemPoolSetAccess(_pool: Handle, _access: *const Access, _count: usize) { Ok(()) }

    fn cuDevicePrimaryCtxRetain(to: *mut Handle, of: c_int) {
        soft().retained[device(of)?] += 1;
        put(to, context_of(of) as Handle)
    }
    fn cuDevicePrimaryCtxRelease_v2(of: c_int) {
        let retained = &mut soft().retained[device(of)?];
        *retained = retained.checked_sub(1).ok_or(INVALID_CONTEXT)?;
        Ok(())
    }
    fn cuCtxGetCurrent(to: *mut Handle) { put(to, contexts(|all| all.last().copied()).unwrap_or(0) as Handle) }
    fn cuCtxPushCurrent_v2(context: Handle) {
        device_of(context as usize)?;
        contexts(|all| all.push(context as usize));
        Ok(())
    }
    fn cuCtxPopCurrent_v2(to: *mut Handle) {
        put(to, contexts(Vec::pop).ok_or(INVALID_CONTEXT)? as Handle)
    }
    fn cuCtxSetCurrent(context: Handle) {
        contexts(|all| {
            all.pop();
            if !context.is_null() {
                all.push(context as usize);
            }
        });
        Ok(())
    }
    fn cuCtxGetDevice(to: *mut c_int) { put(to, current()?) }
    fn cuCtxSynchronize() {
        wait_for_all(Some(current()?));
        Ok(())
    }
    fn cuCtxEnablePeerAccess(peer: Handle, _flags: c_uint) {
        let pair = (current()?, device_of(peer as usize)?);
        if soft().peers.insert(pair) { Ok(()) } else { Err(PEER_ACCESS_ALREADY_ENABLED) }
    }

    fn cuMemAlloc_v2(to: *mut u64, bytes: usize) {
        let device = current()?;
        put(to, memory::allocate(&mut soft(), bytes, Some(device))?)
    }
    fn cuMemFree_v2(address: u64) {
        current()?;
        // A driver waits, for a context's work at least.
        wait_for_all(None);
        memory::free(&mut soft(), address)
    }
    fn cuMemHostAlloc(to: *mut Handle, bytes: usize, _flags: c_uint) {
        current()?;
        put(to, handle(memory::allocate(&mut soft(), bytes, None)?))
    }
    fn cuMemHostGetDevicePointer_v2(to: *mut u64, of: Handle, _flags: c_uint) { put(to, of as u64) }
    fn cuMemFreeHost(address: Handle) {
        current()?;
        let (start, bytes) = soft().memories.range(address as u64)?;
        give_up("cuMemFreeHost", start, bytes);
        memory::free(&mut soft(), address as u64)
    }
    fn cuMemsetD8Async(to: u64, value: u8, bytes: usize, stream: Handle) {
        let set = move || std::ptr::write_bytes(to as *mut u8, value, bytes);
        let stream = soft().stream(stream)?;
        stream.put(Work::new(&[to], set))
    }
    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: Handle) {
        copy(to, from as u64, bytes, stream, true)
    }
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: Handle) {
        copy(to as u64, from, bytes, stream, true)
    }
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) { copy(to, from, bytes, stream, false) }
    fn cuMemcpyPeerAsync(to: u64, _there: Handle, from: u64, _here: Handle, bytes: usize, stream: Handle) {
        copy(to, from, bytes, stream, false)
    }
    fn cuPointerGetAttribute(to: *mut c_void, attribute: c_int, address: u64) {
        let value = soft().memories.attribute(attribute, address)?;
        match attribute {
            2 | 9 | 10 => put(to.cast(), value as u32),
            _ => put(to.cast(), value),
        }
    }
    fn cuMemGetAddressRange_v2(start: *mut u64, bytes: *mut usize, address: u64) {
        let range = soft().memories.range(address)?;
        put(start, range.0)?;
        put(bytes, range.1)
    }
    fn cuMemGetAccess(to: *mut u64, location: *const Location, address: u64) {
        put(to, soft().memories.access(address, (*location).id)?)
    }
    fn cuIpcGetMemHandle(to: *mut Ipc, _address: u64) { put(to, Ipc([7; 64])) }
    fn cuIpcOpenMemHandle_v2(_to: *mut u64, _handle: Ipc, _flags: c_uint) { Err(INVALID_CONTEXT) }

    fn cuMemGetAllocationGranularity(to: *mut usize, _properties: *const Properties, _option: c_int) {
        put(to, GRANULARITY)
    }
    fn cuMemCreate(to: *mut u64, bytes: usize, properties: *const Properties, _flags: u64) {
        put(to, memory::create(&mut soft(), bytes, &*properties)?)
    }
    fn cuMemRelease(of: u64) { taken(|soft| soft.memories.handles.remove(&of)) }
    fn cuMemExportToShareableHandle(to: *mut c_void, of: u64, _kind: c_int, _flags: u64) {
        put(to.cast(), memory::export(&soft(), of)?.into_raw_fd())
    }
    fn cuMemImportFromShareableHandle(to: *mut u64, from: *mut c_void, _kind: c_int) {
        put(to, memory::import(&mut soft(), BorrowedFd::borrow_raw(from as usize as c_int))?)
    }
    fn cuMemGetAllocationPropertiesFromHandle(to: *mut Properties, of: u64) { put(to, memory::properties(&soft(), of)?) }
    fn cuMemRetainAllocationHandle(to: *mut u64, address: Handle) {
        put(to, memory::retain(&mut soft(), address as u64)?)
    }
    fn cuMemAddressReserve(to: *mut u64, bytes: usize, _align: usize, _wanted: u64, _flags: u64) {
        put(to, memory::reserve(&mut soft(), bytes)?)
    }
    fn cuMemAddressFree(address: u64, bytes: usize) { memory::give_back(&mut soft(), address, bytes) }
    fn cuMemMap(at: u64, bytes: usize, offset: usize, of: u64, _flags: u64) {
        if offset == 0 { memory::map(&mut soft(), at, bytes, of) } else { Err(INVALID_VALUE) }
    }
    fn cuMemUnmap(at: u64, bytes: usize) {
        give_up("cuMemUnmap", at, bytes);
        memory::unmap(&mut soft(), at, bytes)
    }
    fn cuMemSetAccess(at: u64, bytes: usize, access: *const Access, count: usize) {
        if count == 1 { memory::let_in(&mut soft(), at, bytes, &*access) } else { Err(INVALID_VALUE) }
    }

    fn cuStreamCreate(to: *mut Handle, _flags: c_uint) {
        let stream = Stream::start(current()?);
        let mut soft = soft();
        let number = soft.next();
        soft.streams.insert(number, stream);
        put(to, handle(number))
    }
    fn cuStreamDestroy_v2(stream: Handle) {
        soft().stream(stream)?.close();
        taken(|soft| soft.streams.remove(&(stream as u64)))
    }
    fn cuStreamSynchronize(stream: Handle) {
        let stream = soft().stream(stream)?;
        stream.wait()
    }
    fn cuStreamGetCtx(stream: Handle, to: *mut Handle) {
        let device = soft().stream(stream)?.device;
        put(to, context_of(device) as Handle)
    }
    fn cuStreamWaitEvent(stream: Handle, event: Handle, _flags: c_uint) {
        let event = soft().event(event)?;
        let stream = soft().stream(stream)?;
        event.hold_back(&stream)
    }
    fn cuEventCreate(to: *mut Handle, _flags: c_uint) {
        current()?;
        let mut soft = soft();
        let number = soft.next();
        soft.events.insert(number, Arc::new(Event::default()));
        put(to, handle(number))
    }
    fn cuEventDestroy_v2(event: Handle) { taken(|soft| soft.events.remove(&(event as u64))) }
    fn cuEventRecord(event: Handle, stream: Handle) {
        let event = soft().event(event)?;
        let stream = soft().stream(stream)?;
        event.record(&stream)
    }

    fn cuStreamBeginCapture_v2(stream: Handle, _mode: c_int) {
        let stream = soft().stream(stream)?;
        let mut soft = soft();
        let number = soft.next();
        stream.begin(number)?;
        soft.graphs.insert(number, Graph::default());
        Ok(())
    }
    fn cuStreamEndCapture(stream: Handle, to: *mut Handle) {
        let stream = soft().stream(stream)?;
        put(to, handle(stream.end()?))
    }
    fn cuStreamIsCapturing(stream: Handle, to: *mut c_int) {
        let stream = soft().stream(stream)?;
        put(to, stream.capture().is_some().into())
    }
    fn cuStreamGetCaptureInfo_v2(
        stream: Handle,
        status: *mut c_int,
        id: *mut u64,
        graph: *mut Handle,
        _dependencies: *mut c_void,
        _count: *mut c_void
    ) {
        let capture = soft().stream(stream)?.capture();
        put(status, capture.is_some().into())?;
        put(id, capture.unwrap_or(0))?;
        put(graph, handle(capture.unwrap_or(0)))
    }
    fn cuUserObjectCreate(
        to: *mut Handle,
        pointer: Handle,
        give_up: Option<unsafe extern "C" fn(*mut c_void)>,
        _count: c_uint,
        _flags: c_uint
    ) {
        let object = Arc::new(Object { pointer: pointer as usize, give_up: give_up.ok_or(INVALID_VALUE)? });
        let mut soft = soft();
        let number = soft.next();
        soft.objects.insert(number, object);
        put(to, handle(number))
    }
    fn cuGraphRetainUserObject(graph: Handle, object: Handle, _count: c_uint, flags: c_uint) {
        let mut soft = soft();
        if flags != 1 || !soft.graphs.contains_key(&(graph as u64)) {
            return Err(INVALID_VALUE);
        }
        let object = soft.objects.remove(&(object as u64)).ok_or(INVALID_VALUE)?;
        soft.graphs.get_mut(&(graph as u64)).ok_or(INVALID_VALUE)?.keep(object);
        Ok(())
    }
    fn cuUserObjectRelease(object: Handle, _count: c_uint) { taken(|soft| soft.objects.remove(&(object as u64))) }
    fn cuGraphInstantiateWithFlags(to: *mut Handle, graph: Handle, _flags: u64) {
        let mut soft = soft();
        let graph = soft.graphs.get(&(graph as u64)).cloned().ok_or(INVALID_HANDLE)?;
        let number = soft.next();
        soft.executables.insert(number, graph);
        put(to, handle(number))
    }
    fn cuGraphUpload(graph: Handle, _stream: Handle) {
        if soft().executables.contains_key(&(graph as u64)) { Ok(()) } else { Err(INVALID_HANDLE) }
    }
    fn cuGraphLaunch(graph: Handle, stream: Handle) {
        let (graph, stream) = {
            let soft = soft();
            (soft.executables.get(&(graph as u64)).cloned().ok_or(INVALID_HANDLE)?, soft.stream(stream)?)
        };
        if stream.capture().is_some() { Err(ILLEGAL_STATE) } else { stream.replay(&graph) }
    }
    fn cuGraphDestroy(graph: Handle) { taken(|soft| soft.graphs.remove(&(graph as u64))) }
    fn cuGraphExecDestroy(graph: Handle) { taken(|soft| soft.executables.remove(&(graph as u64))) }

    fn cuModuleLoadDataEx(
        to: *mut Handle,
        image: *const c_char,
        _count: c_uint,
        _options: *mut c_int,
        _values: *mut *mut c_void
    ) {
        current()?;
        let names = kernel::names(CStr::from_ptr(image).to_str().map_err(|_| INVALID_VALUE)?);
        let mut soft = soft();
        let number = soft.next();
        soft.modules.insert(number, names);
        put(to, handle(number))
    }
    fn cuModuleUnload(module: Handle) { taken(|soft| soft.modules.remove(&(module as u64))) }
    fn cuModuleGetFunction(to: *mut Handle, module: Handle, name: *const c_char) {
        let name = CStr::from_ptr(name).to_str().map_err(|_| NOT_FOUND)?;
        let mut soft = soft();
        let there = soft.modules.get(&(module as u64)).ok_or(INVALID_HANDLE)?.contains(name);
        let entry_point = kernel::named(name).filter(|_| there).ok_or(NOT_FOUND)?;
        let number = soft.next();
        soft.functions.insert(number, entry_point);
        put(to, handle(number))
    }
    fn cuFuncLoad(_function: Handle) { current().map(drop) }
    fn cuFuncGetAttribute(to: *mut c_int, attribute: c_int, _function: Handle) {
        // Threads of a block at most; registers.
        put(to, match attribute {
            0 => 1024,
            4 => 32,
            _ => 0,
        })
    }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(to: *mut c_int, _function: Handle, threads: c_int, _shared: usize) {
        put(to, 1536 / threads.max(1))
    }
    fn cuLaunchKernel(
        function: Handle,
        blocks: c_uint,
        _y: c_uint,
        _z: c_uint,
        _threads: c_uint,
        _threads_y: c_uint,
        _threads_z: c_uint,
        _shared_bytes: c_uint,
        stream: Handle,
        arguments: *mut *mut c_void,
        _more: *mut *mut c_void
    ) {
        launch(function, blocks, stream, arguments)
    }
    fn cuLaunchKernelEx(
        config: *const Config,
        function: Handle,
        arguments: *mut *mut c_void,
        _more: *mut *mut c_void
    ) {
        launch(function, (*config).grid[0], (*config).stream, arguments)
    }
}

/// Writes `from` with a zero at its end.
///
/// # Safety
/// `to` has room for `length` bytes.
unsafe fn text(to: *mut c_char, length: c_int, from: &str) -> Answer {
    if from.len() + 1 > length as usize {
        return Err(INVALID_VALUE);
    }
    for (at, byte) in from.bytes().chain([0]).enumerate() {
        // SAFETY: the caller's promise.
        unsafe { to.add(at).write(byte as c_char) };
    }
    Ok(())
}
