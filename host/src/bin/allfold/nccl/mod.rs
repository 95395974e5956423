//! NCCL, for the bench to time beside ours: opened at run time, never linked.
//!
//! | file | what |
//! |---|---|
//! | `raw.rs` | NCCL's functions and communicators; all that is `unsafe` |
//! | `fake.rs` | tests of it on functions that only write down how they were called |
//!
//! It is here and not in the library because only the bench wants it, and it can be here because the library's public API
//! has all that NCCL takes: `RankBuffers::raw` has the addresses, `RawStream::as_ptr` the stream. No driver call is made here.
//!
//! NVLink multicast: NCCL uses it by itself where the GPUs have it, and on the shared hosts that we measure on it has to stay
//! off. The program therefore sets `NCCL_NVLS_ENABLE=0` before anything else runs, unless the user has set that variable, and
//! the report says what it was. Ours does not use multicast either.

use std::path::PathBuf;

mod raw;

#[cfg(test)]
mod fake;

pub use raw::Nccl;

/// NCCL's file name on Linux, resolved by the dynamic linker as usual.
pub const LIBRARY: &str = "libnccl.so.2";

/// The variable that lets NCCL use NVLink multicast, or not, and what it is unless the user has set it.
pub const NVLS: (&str, &str) = ("NCCL_NVLS_ENABLE", "0");

/// Why NCCL could not be timed.
#[derive(Debug, thiserror::Error)]
pub enum NcclError {
    /// Ranks on the CPU.
    #[error("NCCL needs a GPU a rank, and these {ranks} ranks are on the CPU")]
    CpuRanks {
        /// How many.
        ranks: usize,
    },
    /// Ranks that share a GPU.
    #[error("NCCL needs a GPU a rank, and ranks {} and {} share GPU {device}", ranks[0], ranks[1])]
    SharedGpu {
        /// Two of them.
        ranks: [usize; 2],
        /// Their GPU.
        device: u32,
    },
    /// The library cannot be opened.
    #[error(
        "cannot open NCCL, {}: {reason}; PyTorch's wheel nvidia-nccl has it, nvidia/nccl/lib/{LIBRARY}: name \
         the file with --nccl-library",
        library.display()
    )]
    Missing {
        /// What was asked for.
        library: PathBuf,
        /// What the dynamic linker answered.
        reason: String,
    },
    /// Some other library, or too old a one.
    #[error("{} is not NCCL, or too old: it has no {symbol}", library.display())]
    NoSymbol {
        /// What was opened.
        library: PathBuf,
        /// The first function that it lacks.
        symbol: &'static str,
    },
    /// A call that failed.
    #[error("{call} failed with code {code}: {text}")]
    Call {
        /// NCCL's function.
        call: &'static str,
        /// What it returned: an `ncclResult_t`.
        code: i32,
        /// What NCCL says of the code.
        text: String,
    },
    /// Buffers that are not on a GPU.
    #[error("rank {rank} gives host memory to NCCL")]
    HostMemory {
        /// The rank.
        rank: usize,
    },
    /// Buffers that no all-reduce takes.
    #[error(transparent)]
    Buffers(#[from] allfold::Error),
}

/// Refuses ranks that NCCL cannot have: `devices` are the ordinals of their GPUs, none of `ranks` on the CPU.
pub fn check_ranks(ranks: usize, devices: &[u32]) -> Result<(), NcclError> {
    if devices.is_empty() {
        return Err(NcclError::CpuRanks { ranks });
    }
    for (rank, &device) in devices.iter().enumerate() {
        if let Some(other) = devices[..rank].iter().position(|&other| other == device) {
            return Err(NcclError::SharedGpu { ranks: [other, rank], device });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_without_a_gpu_of_their_own_are_refused() {
        assert!(check_ranks(2, &[0, 1]).is_ok());
        assert!(check_ranks(1, &[3]).is_ok());
        let said = |devices: &[u32]| check_ranks(4, devices).expect_err("refused").to_string();
        assert_eq!(said(&[]), "NCCL needs a GPU a rank, and these 4 ranks are on the CPU");
        assert_eq!(said(&[0, 0]), "NCCL needs a GPU a rank, and ranks 0 and 1 share GPU 0");
        assert_eq!(said(&[2, 0, 1, 0]), "NCCL needs a GPU a rank, and ranks 1 and 3 share GPU 0");
    }
}
