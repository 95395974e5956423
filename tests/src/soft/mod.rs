//! GPUs of software: what this library calls of a CUDA driver, on host memory and threads, for whoever has no GPU and wants to
//! run what is for GPUs. Kernels are the CPU's, of the same source. Uses `allfold::driver_faults`.
//!
//! | file | what |
//! |---|---|
//! | `functions.rs` | the driver's functions, by name |
//! | `state.rs` | what there is of everything, and contexts |
//! | `stream.rs` | streams, each a thread; events, captures and graphs |
//! | `memory.rs` | memory of all kinds |
//! | `kernel.rs` | kernels by name, and launches |
//!
//! Whatever frees memory waits for all work of the process, which drivers may do or not: so it finds who waits there for what only comes
//! later. `cuMemFree`, which drivers wait in, is all that may come while work still uses the memory: whoever unmaps it then, or frees
//! memory of the host, is blamed ([`blameless`]); of a kernel those addresses are known that are among its arguments. [`live`] says what
//! has not been given back. It has no times: nothing is measured on it.

mod functions;
mod kernel;
mod memory;
mod state;
mod stream;

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};

pub use state::Live;

/// How many there are.
pub const DEVICES: usize = 2;

/// Puts them in the place of a driver's. False: driver calls were made already, or will go to others.
pub fn install() -> bool {
    // SAFETY: the functions do what this crate asks of the driver's; whoever calls this has called none.
    let given = unsafe { allfold::driver_faults::give(functions::look_up, (13, 0)) };
    INSTALLED.fetch_or(given, Ordering::Relaxed);
    given
}

static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Whether they are in a driver's place. Others may take the processors that they run on, and they are late then.
pub fn installed() -> bool {
    INSTALLED.load(Ordering::Relaxed)
}

/// Whether nothing was done since the last time that a driver need not bear.
///
/// # Errors
/// What was.
pub fn blameless() -> Result<()> {
    let blamed = std::mem::take(&mut state::soft().blamed);
    ensure!(blamed.is_empty(), "{}", blamed.join("; "));
    Ok(())
}

/// What is there now of what a driver gives.
pub fn live() -> Live {
    state::soft().live()
}
