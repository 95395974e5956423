//! Device memory that ranks in other processes map, whoever allocated it, and the rows that captured calls read.

use std::os::fd::OwnedFd;

use allfold_kernels::protocol::abi::ROW_WORDS;

use super::raw::{
    Context, DeviceHandle, DeviceMemory, IPC_BYTES, IpcMemory, Pointer, PointerKind, ShareableMemory, export,
};
use crate::error::{Error, Result};
use crate::hash::fnv1a;
use crate::reach::{self, Allocation, Shared, Sharing, Span};

const _: () = assert!(IPC_BYTES == reach::IPC_BYTES);

/// The driver's codes where it is asked about an address at which there is nothing.
const NOTHING_THERE: [i32; 2] = [1, 500];

/// Bytes of a row.
const ROW_BYTES: u64 = 8 * ROW_WORDS as u64;

/// The means of ranks on GPUs.
pub(crate) struct CudaSharing {
    /// Of each local rank.
    contexts: Vec<Context>,
    /// Of the local rank, where there are captured calls between processes.
    rows: Option<DeviceMemory>,
}

/// Another process's allocation.
pub(crate) enum CudaMapping {
    /// By descriptors.
    Pieces(#[expect(dead_code, reason = "kept for what its end does")] ShareableMemory),
    /// By a handle.
    Ipc(#[expect(dead_code, reason = "as above")] IpcMemory),
}

impl CudaSharing {
    /// For local ranks of `contexts`, with so many rows, all empty.
    pub(super) fn new(contexts: Vec<Context>, rows: u32) -> Result<CudaSharing> {
        let bytes = rows as usize * ROW_BYTES as usize;
        let rows = match contexts.first() {
            Some(context) if bytes > 0 => {
                let rows = DeviceMemory::alloc(context, bytes)?;
                // SAFETY: the memory is new.
                unsafe { context.memset(rows.address(), 0, bytes) }?;
                Some(rows)
            }
            Some(_) | None => None,
        };
        Ok(CudaSharing { contexts, rows })
    }

    /// Where a row is; 0: there are none.
    pub(super) fn row_address(&self, row: u32) -> u64 {
        self.rows.as_ref().map_or(0, |rows| rows.address() + u64::from(row) * ROW_BYTES)
    }

    /// The context of the first local rank, from which any address of the process can be asked about.
    fn context(&self) -> Result<&Context> {
        self.contexts.first().ok_or(Error::RankCount { local: 0, got: 0 })
    }

    /// The context of the GPU that has the memory: others do not know where it starts and ends.
    fn owner(&self, device: DeviceHandle) -> Result<Context> {
        let local = self.contexts.iter().find(|context| context.device() == device);
        Ok(local.map_or_else(|| Context::retain(device), |context| Ok(context.clone()))?)
    }

    /// What `rank`'s buffer belongs to.
    fn pointer(&self, rank: u32, span: Span) -> Result<Pointer> {
        let not = || Error::WrongMemory { rank, got: "host", expected: "GPUs" };
        self.context()?.pointer(span.address)?.ok_or_else(not)
    }
}

/// Start and length of the allocation that `span` lies in, or of each piece of mapped memory.
fn pieces(context: &Context, span: Span) -> impl Iterator<Item = Result<(u64, u64)>> {
    let end = span.address.saturating_add(span.bytes);
    let mut next = Some(span.address);
    std::iter::from_fn(move || {
        let piece = context.range(next?);
        // After a failure there is nothing more to say.
        next = piece.as_ref().ok().map(|(start, bytes)| start + bytes).filter(|&next| next < end);
        Some(piece.map_err(Error::from))
    })
}

/// The memory that has a handle of its own and that `span` lies in as a whole.
fn whole(context: &Context, rank: u32, span: Span) -> Result<Span> {
    let (address, bytes) = context.range(span.address)?;
    let whole = Span { address, bytes };
    let outside = Error::OutsideRegistration { rank, address: span.address, bytes: span.bytes };
    whole.offset_of(span).map(|_| whole).ok_or(outside)
}

impl Sharing for CudaSharing {
    type Mapping = CudaMapping;

    fn export(&self, rank: u32, span: Span) -> Result<(Allocation, Vec<OwnedFd>)> {
        let Pointer { id, kind, device } = self.pointer(rank, span)?;
        let context = &self.owner(device)?;
        let not = |why: &str| Ok((Allocation { span, id, shared: Shared::Not(why.to_owned()) }, Vec::new()));
        match kind {
            PointerKind::Plain => {
                let span = whole(context, rank, span)?;
                Ok((Allocation { span, id, shared: Shared::Ipc(context.ipc_handle(span.address)?) }, Vec::new()))
            }
            PointerKind::Virtual { has_descriptor: true } => {
                let pieces = export(context, span.address, span.bytes)?;
                let address = pieces.first().map_or(span.address, |&(start, ..)| start);
                let lengths: Vec<_> = pieces.iter().map(|&(_, bytes, _)| bytes).collect();
                let span = Span { address, bytes: lengths.iter().sum() };
                // Of all its pieces: another may have taken the place of one of them.
                let id = self.id(span)?.unwrap_or(id);
                let descriptors = pieces.into_iter().map(|(.., descriptor)| descriptor).collect();
                Ok((Allocation { span, id, shared: Shared::Pieces(lengths) }, descriptors))
            }
            PointerKind::Virtual { has_descriptor: false } => {
                not("its memory was not made for file descriptors (CUmemAllocationProp::requestedHandleTypes); use \
                     cuMemAlloc, allfold::Memory, or a call that pushes or copies its input")
            }
            PointerKind::Pool(_) => {
                not("it is memory of a stream-ordered pool; use cuMemAlloc, allfold::Memory, or a call that pushes or \
                     copies its input")
            }
        }
    }

    fn open(&self, allocation: &Allocation, descriptors: &[OwnedFd]) -> Result<(u64, CudaMapping)> {
        let context = self.context()?;
        match &allocation.shared {
            Shared::Ipc(handle) => {
                let memory = IpcMemory::open(context, handle)?;
                Ok((memory.address(), CudaMapping::Ipc(memory)))
            }
            Shared::Pieces(lengths) if lengths.len() != descriptors.len() => {
                let source = std::io::Error::from(std::io::ErrorKind::InvalidData);
                Err(Error::Host { what: "mapping a peer's buffer", source })
            }
            Shared::Pieces(lengths) => {
                let pieces: Vec<_> = descriptors.iter().zip(lengths.iter().map(|&bytes| bytes as usize)).collect();
                let memory = ShareableMemory::import(context, &pieces)?;
                Ok((memory.address(), CudaMapping::Pieces(memory)))
            }
            // Refused on all ranks before.
            Shared::Not(_) => Err(Error::NotRegistered),
        }
    }

    fn adopt(&self, rank: u32, span: Span) -> Result<()> {
        let Pointer { device, kind, .. } = self.pointer(rank, span)?;
        let owner = self.owner(device)?;
        for context in self.contexts.iter().filter(|context| context.device() != device) {
            match kind {
                PointerKind::Plain => context.enable_peer_access(&Context::retain(device)?)?,
                PointerKind::Pool(pool) => context.enable_access_to(pool)?,
                PointerKind::Virtual { .. } => {
                    for piece in pieces(&owner, span) {
                        let (address, bytes) = piece?;
                        if !context.reaches(address)? {
                            // SAFETY: whoever mapped it keeps it mapped while it is registered.
                            unsafe { context.enable_access_at(address, bytes) }?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn id(&self, span: Span) -> Result<Option<u64>> {
        let Some(pointer) = self.context()?.pointer(span.address)? else { return Ok(None) };
        let owner = self.owner(pointer.device)?;
        // Of mapped memory each piece has a number of its own, and may go without the others.
        let mut ids = Vec::new();
        for piece in pieces(&owner, span) {
            let id = match piece {
                Ok((start, _)) => owner.allocation_id(start)?,
                // Nothing is mapped there any more.
                Err(Error::Driver(error)) if NOTHING_THERE.contains(&error.code) => None,
                Err(error) => return Err(error),
            };
            let Some(id) = id else { return Ok(None) };
            ids.push(id);
        }
        Ok(match ids[..] {
            [id] => Some(id),
            _ => Some(fnv1a(&ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<_>>())),
        })
    }

    fn write_row(&self, row: u32, words: &[u64; ROW_WORDS]) -> Result<()> {
        let words: &[u8] = bytemuck::cast_slice(words);
        // SAFETY: a row of this value's own, which no kernel reads that runs now. The copy waits until it is there.
        unsafe { self.context()?.copy_to_device(self.row_address(row), words) }?;
        Ok(())
    }
}
