//! A call that has been found possible: lengths agree, pointers are aligned to elements, nothing overlaps that must not.

use allfold_kernels::protocol::abi::{Dtype, PACK_BYTES, ReduceOp};

use crate::buffers::RawBuffers;
use crate::error::{Error, Result};
use crate::members::Members;
use crate::reach::Registered;

/// A validated call. Of ranks in other processes nothing is known but what all ranks must have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Element type.
    pub dtype: Dtype,
    /// What is done to the terms.
    pub op: ReduceOp,
    /// Elements on each rank.
    pub elems: u64,
    /// Bytes on each rank.
    pub bytes: u64,
    /// Whether a rank's output is its input, or may be: of ranks in other processes it is known for registered buffers only.
    pub in_place: bool,
    /// Whether every buffer of the ranks here is aligned to a pack. It decides how packs are accessed, never who handles them.
    pub aligned: bool,
}

impl Request {
    /// Checks the buffers of all ranks, in rank order, against each other.
    ///
    /// # Errors
    /// [`Error::RankCount`], [`Error::OutputLength`], [`Error::LengthMismatch`], [`Error::Misaligned`],
    /// [`Error::NullPointer`], [`Error::TooLong`], [`Error::Overlap`].
    pub fn new(world: usize, dtype: Dtype, op: ReduceOp, buffers: &[RawBuffers<'_>]) -> Result<Request> {
        match u32::try_from(world) {
            Ok(world) => Request::of(Members::all(world), dtype, op, buffers, Registered::No),
            Err(_) => Err(Error::RankCount { local: world, got: buffers.len() }),
        }
    }

    /// Checks the buffers of the local ranks, in rank order, against each other.
    ///
    /// # Errors
    /// As [`Request::new`].
    pub(crate) fn of(
        members: Members,
        dtype: Dtype,
        op: ReduceOp,
        buffers: &[RawBuffers<'_>],
        registered: Registered,
    ) -> Result<Request> {
        let local = members.local as usize;
        let [first, ..] = buffers else { return Err(Error::RankCount { local, got: 0 }) };
        if buffers.len() != local {
            return Err(Error::RankCount { local, got: buffers.len() });
        }
        let elems = first.input_elems;
        let mut low_bits = 0;
        for (rank, b) in (members.first..).zip(buffers) {
            if b.input_elems != b.output_elems {
                return Err(Error::OutputLength { rank, input_elems: b.input_elems, output_elems: b.output_elems });
            }
            if b.input_elems != elems {
                return Err(Error::LengthMismatch { rank, elems: b.input_elems, expected: elems });
            }
            for address in [b.input, b.output] {
                check_address(rank, dtype, address, elems)?;
                low_bits |= address;
            }
        }
        let bytes = elems * dtype.bytes() as u64;
        // What is registered lies alike on all ranks.
        let all_known = members.all_local() || registered != Registered::No;
        check_overlap(members.first, buffers, bytes)?;
        Ok(Request {
            dtype,
            op,
            elems,
            bytes,
            in_place: elems > 0 && (!all_known || buffers.iter().any(|b| b.input == b.output)),
            aligned: low_bits.is_multiple_of(PACK_BYTES as u64),
        })
    }
}

fn check_address(rank: u32, dtype: Dtype, address: u64, elems: u64) -> Result<()> {
    if elems == 0 {
        return Ok(());
    }
    if address == 0 {
        return Err(Error::NullPointer { rank, elems });
    }
    if !address.is_multiple_of(dtype.bytes() as u64) {
        return Err(Error::Misaligned { rank, address, align_bytes: dtype.bytes() });
    }
    let end = elems.checked_mul(dtype.bytes() as u64).and_then(|bytes| address.checked_add(bytes));
    match end {
        Some(_) => Ok(()),
        None => Err(Error::TooLong { rank, address, elems, elem_bytes: dtype.bytes() }),
    }
}

/// Each output may overlap nothing but its own rank's input, and that only as a whole.
fn check_overlap(first: u32, buffers: &[RawBuffers<'_>], bytes: u64) -> Result<()> {
    let common = |a: u64, b: u64| bytes.saturating_sub(a.abs_diff(b));
    for (rank, a) in (first..).zip(buffers) {
        for (other_rank, b) in (first..).zip(buffers) {
            let overlap_bytes = common(a.output, b.input);
            let in_place = rank == other_rank && a.output == b.input;
            if overlap_bytes > 0 && !in_place {
                return Err(Error::Overlap { rank, other: "input", other_rank, overlap_bytes });
            }
            let overlap_bytes = common(a.output, b.output);
            if overlap_bytes > 0 && rank != other_rank {
                return Err(Error::Overlap { rank, other: "output", other_rank, overlap_bytes });
            }
        }
    }
    Ok(())
}
