//! One call, as a property asks for it.

use allfold::{Algorithm, CallOptions, Dtype, InputMode, ReduceOp};

use crate::data::Data;
use crate::machine::MEMORY_ALIGN_BYTES;

/// Bytes of the zone before and after each buffer.
pub const GUARD_BYTES: usize = 256;
/// Largest shift, in elements.
pub const MOST_SHIFT: usize = 7;

/// One call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Element type.
    pub dtype: Dtype,
    /// What is done to the terms.
    pub op: ReduceOp,
    /// Elements a rank.
    pub elems: usize,
    /// The inputs.
    pub data: Data,
    /// What is asked of the library.
    pub options: CallOptions,
    /// Whether the output is the input.
    pub in_place: bool,
    /// 0: all buffers are aligned. Else inputs and outputs are off by up to 7 elements, in another way on each rank.
    pub skew: usize,
    /// Whether each rank overwrites its input right after the call, in stream order.
    pub spoil: bool,
    /// A rank that comes milliseconds late.
    pub late: Option<usize>,
}

impl Call {
    /// Out of place, aligned, with random data and the library's choice of algorithm and input mode.
    pub fn new(dtype: Dtype, elems: usize) -> Call {
        Call {
            dtype,
            op: ReduceOp::Sum,
            elems,
            data: Data::Random(elems as u64),
            options: CallOptions::default(),
            in_place: false,
            skew: 0,
            spoil: false,
            late: None,
        }
    }

    /// The same by a given algorithm and input mode.
    pub fn by(self, (algorithm, input): (Algorithm, InputMode)) -> Call {
        let options = CallOptions { algorithm: Some(algorithm), input: Some(input), ..self.options };
        Call { options, ..self }
    }

    /// The same with a given grid.
    pub fn on(self, blocks: u32, threads: u32) -> Call {
        Call { options: CallOptions { blocks: Some(blocks), threads: Some(threads), ..self.options }, ..self }
    }

    /// Elements by which the input and the output of `rank` are off alignment.
    pub fn shifts(&self, rank: usize) -> (usize, usize) {
        if self.skew == 0 {
            return (0, 0);
        }
        let shift = |by: usize| by % (MOST_SHIFT + 1);
        let input = shift(self.skew + rank);
        (input, if self.in_place { input } else { shift(3 * self.skew + 5 * rank + 2) })
    }

    /// Bytes of each buffer.
    pub fn bytes(&self) -> usize {
        self.elems * self.dtype.bytes()
    }

    /// Bytes of a rank's memory that the call takes, at most.
    pub fn footprint_bytes(&self) -> usize {
        2 * (self.bytes() + GUARD_BYTES + 2 * MEMORY_ALIGN_BYTES)
    }
}
