//! Driver calls that fail where a test wants them to, and functions in a driver's place. There is none of it without the
//! feature `driver-faults`. Uses nothing of this crate but `symbols.rs`.
//!
//! Calls are counted, and fail, on the thread alone that asked for it: so a run of one thread makes the same calls each time,
//! and each of them can be told by its number.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;

use super::symbols;

/// Gives the address of a driver's function by its name, if there is such a function.
pub type Functions = fn(&str) -> Option<NonNull<c_void>>;

/// The calls of a thread while they were watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// The driver's functions, in the order in which they were called.
    pub names: Vec<&'static str>,
    /// The one that failed, and was not called.
    pub failed: Option<&'static str>,
}

struct Watched {
    calls: Calls,
    /// Which of them fails, and with what code.
    fails: Option<(usize, c_int)>,
}

thread_local! {
    static WATCHED: RefCell<Option<Watched>> = const { RefCell::new(None) };
}

/// The driver calls that `work` makes on this thread. `fails`: the number of the one that is not made, and the code that it
/// returns in place of its own.
pub fn watch<T>(fails: Option<(usize, i32)>, work: impl FnOnce() -> T) -> (T, Calls) {
    /// Calls are not watched any more when this goes, also where the work panics.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            WATCHED.take();
        }
    }
    WATCHED.set(Some(Watched { calls: Calls::default(), fails }));
    let end = End;
    let done = work();
    let calls = WATCHED.take().map(|watched| watched.calls).unwrap_or_default();
    drop(end);
    (done, calls)
}

/// What `work` does while this thread's calls are not watched, as they may be.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    /// What was watched before is watched again when this goes.
    struct Back(Option<Watched>);
    impl Drop for Back {
        fn drop(&mut self) {
            WATCHED.set(self.0.take());
        }
    }
    let _back = Back(WATCHED.take());
    work()
}

/// The code of a call of `name` that is to fail.
pub(crate) fn fault(name: &'static str) -> Option<c_int> {
    // A thread that ends may still make calls: those of destructors, which nobody watches.
    let fault = WATCHED.try_with(|watched| {
        let mut watched = watched.try_borrow_mut().ok()?;
        let Watched { calls, fails } = watched.as_mut()?;
        let number = calls.names.len();
        calls.names.push(name);
        let (_, code) = fails.filter(|(at, _)| *at == number)?;
        calls.failed = Some(name);
        Some(code)
    });
    fault.ok().flatten()
}

/// What a test has put in the place of the driver: functions, and a version.
static GIVEN: OnceLock<(Functions, (u32, u32))> = OnceLock::new();

/// From here on driver calls go to `functions`, of a driver of this version. False: there are others already.
///
/// # Safety
/// - Each address is that of a function which keeps the contract of the driver's function of that name.
/// - No driver call was made before.
pub unsafe fn give(functions: Functions, version: (u32, u32)) -> bool {
    GIVEN.set((functions, version)).is_ok()
}

pub(super) fn given() -> Option<(Functions, (u32, u32))> {
    GIVEN.get().copied()
}

/// This thread's current context, as a number; 0: it has none, or nobody says.
pub fn current_context() -> usize {
    let mut context = null_mut();
    // SAFETY: it writes one handle.
    match unsafe { symbols::cuCtxGetCurrent(&mut context) } {
        0 => context as usize,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::driver;
    use crate::cuda::raw::DeviceHandle;

    #[test]
    fn the_call_that_is_asked_for_fails_and_no_other_one() {
        if driver::open().is_ok() {
            eprintln!("SKIPPED: this machine has a CUDA driver");
            return;
        }
        let three = || [0; 3].map(|_| DeviceHandle::count().expect_err("no driver").code);
        assert_eq!(watch(None, three), ([100; 3], Calls { names: vec!["cuInit"; 3], failed: None }));
        let (codes, calls) = watch(Some((1, 999)), three);
        assert_eq!((codes, calls), ([100, 999, 100], Calls { names: vec!["cuInit"; 3], failed: Some("cuInit") }));
        // Nobody watches any more, not even after a panic; and what is done aside is not watched.
        assert_eq!(three(), [100; 3]);
        let panicked = std::panic::catch_unwind(|| watch(Some((0, 999)), || panic!("on purpose")));
        assert!(panicked.is_err() && three() == [100; 3]);
        let (codes, calls) = watch(Some((1, 999)), || (three()[0], aside(three), three()[0]));
        assert_eq!((codes, calls.names.len()), ((100, [100; 3], 100), 6));
        // Another thread's calls are its own.
        let (codes, calls) = watch(Some((0, 999)), || std::thread::spawn(three).join().expect("it only asks"));
        assert_eq!((codes, calls), ([100; 3], Calls::default()));
    }

    #[test]
    fn a_function_that_is_newer_than_the_crate_fails_as_others_do() {
        let call = || driver::call("cuFuncLoad", || 7);
        assert_eq!(call(), 7);
        let (code, calls) = watch(Some((0, 2)), call);
        assert_eq!((code, calls), (2, Calls { names: vec!["cuFuncLoad"], failed: Some("cuFuncLoad") }));
    }
}
