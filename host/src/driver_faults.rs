//! What tests of driver calls that fail need: see `cuda/driver/faults.rs`, and `cpu/stand_in.rs` for a driver that is none.
//! With the feature `driver-faults`, which is no part of what users are promised.

pub use crate::cpu::stand_in::run_block;
pub use crate::cuda::driver::faults::{Calls, Functions, aside, current_context, give, watch};
