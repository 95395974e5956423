//! The entry points: a line each. They are named `{module}__{kernel}`, as `protocol::entry_point` says; one file of PTX is made
//! for each module.

use super::machine::Ptx;
use crate::protocol::abi::{Algorithm, InputMode, KernelArgs, MAX_RANKS};
use crate::protocol::delayed::Delayed;
use crate::protocol::element::{Any, Bf16, E4m3, E5m2, F16, F32, I32};
use crate::protocol::exchange::{RANKS as EXCHANGE_RANKS, exchange};
use crate::protocol::machine::Machine;
use crate::protocol::one_pass::one_pass;
use crate::protocol::one_shot::one_shot;
use crate::protocol::preset::Preset;
use crate::protocol::spec::{Protocol, Reuse};
use crate::protocol::two_shot::two_shot;
use crate::protocol::{one_shot_push, stage, two_shot_push, verify};

/// What a kernel's machine does besides what all do.
struct Kind {
    /// It finds the buffers of all ranks in a row.
    captured: bool,
    /// It keeps marks.
    marks: bool,
}

const OWN: Kind = Kind { captured: false, marks: false };
const CAPTURED: Kind = Kind { captured: true, marks: false };
const STRESS: Kind = Kind { captured: false, marks: true };

/// `name => body;` with the machine and the arguments in scope; `name, lane = of => body;` with a lane that is known before
/// the kernel begins.
macro_rules! entries {
    ($m:ident, $args:ident, $W:expr; $($rest:tt)*) => { entries! { $m, $args, $W, OWN; $($rest)* } };
    ($m:ident, $args:ident, $W:expr, $kind:ident; $($name:expr $(, $lane:ident = $of:expr)? => $body:expr;)*) => { $(
        const _: () = {
            #[unsafe(export_name = $name)]
            unsafe extern "ptx-kernel" fn entry($args: KernelArgs) {
                // SAFETY: the host passes arguments and a grid as `Ptx::new` asks.
                let $m = unsafe { &Ptx::<{ $W }, { $kind.captured }, { $kind.marks }>::new(&$args) };
                begin!($m $(, $lane = $of)?);
                if !$kind.captured || $m.knows_buffers() {
                    $body
                }
            }
        };
    )* };
}

/// What every kernel does first.
macro_rules! begin {
    ($m:ident) => {
        $m.begin()
    };
    ($m:ident, $lane:ident = $of:expr) => {
        let $lane = $m.begin_with($of);
    };
}

/// Our own protocol as a constant, so that nothing of it is decided at run time.
const fn own(algorithm: Algorithm, input: InputMode) -> Protocol {
    match Preset::Allfold.protocol(algorithm, input) {
        Some(protocol) => protocol,
        None => unreachable!(),
    }
}

const ONE_SHOT: Protocol = own(Algorithm::OneShot, InputMode::Registered);
const ONE_SHOT_MEMCPY: Protocol = own(Algorithm::OneShot, InputMode::Memcpy);
const ONE_SHOT_COPIED: Protocol = own(Algorithm::OneShot, InputMode::Copied);
// A two-shot has nothing at its end, so that one kernel serves whatever was there before the launch.
const TWO_SHOT: Protocol = own(Algorithm::TwoShot, InputMode::Registered);
const _: () = {
    let memcpy = Protocol { reuse: TWO_SHOT.reuse, ..own(Algorithm::TwoShot, InputMode::Memcpy) };
    assert!(matches!(TWO_SHOT.reuse, Reuse::Nothing) && memcpy.encode() == TWO_SHOT.encode());
};
const TWO_SHOT_COPIED: Protocol = own(Algorithm::TwoShot, InputMode::Copied);
const EXCHANGE: Protocol = own(Algorithm::Exchange, InputMode::Registered);
const EXCHANGE_COPIED: Protocol = own(Algorithm::Exchange, InputMode::Copied);
const ONE_PASS: Protocol = own(Algorithm::OnePass, InputMode::Registered);

macro_rules! world {
    ($module:literal, $T:ty, $W:literal) => {
        entries! { m, args, $W;
            concat!($module, "__one_shot_w", $W) => one_shot::<_, $T, $W>(m, ONE_SHOT);
            concat!($module, "__one_shot_memcpy_w", $W) => one_shot::<_, $T, $W>(m, ONE_SHOT_MEMCPY);
            concat!($module, "__one_shot_copied_w", $W) => one_shot::<_, $T, $W>(m, ONE_SHOT_COPIED);
            concat!($module, "__two_shot_w", $W) => two_shot::<_, $T, $W>(m, TWO_SHOT);
            concat!($module, "__two_shot_copied_w", $W) => two_shot::<_, $T, $W>(m, TWO_SHOT_COPIED);
            concat!($module, "__one_shot_push_w", $W), lane = one_shot_push::lane::<_, $T>(m)
                => one_shot_push::one_shot_push_on::<_, $T, $W>(m, lane);
            concat!($module, "__two_shot_push_w", $W), lane = two_shot_push::lane::<_, $T, $W>(m)
                => two_shot_push::two_shot_push_on::<_, $T, $W>(m, lane);
            concat!($module, "__one_pass_w", $W) => one_pass::<_, $T, $W>(m, ONE_PASS);
            concat!($module, "_presets__one_shot_w", $W) => one_shot::<_, $T, $W>(m, Protocol::decode(args.protocol as u32));
            concat!($module, "_presets__two_shot_w", $W) => two_shot::<_, $T, $W>(m, Protocol::decode(args.protocol as u32));
        }
        entries! { m, args, $W, CAPTURED;
            concat!($module, "_captured__one_shot_w", $W) => one_shot::<_, $T, $W>(m, ONE_SHOT);
            concat!($module, "_captured__two_shot_w", $W) => two_shot::<_, $T, $W>(m, TWO_SHOT);
            concat!($module, "_captured__one_pass_w", $W) => one_pass::<_, $T, $W>(m, ONE_PASS);
        }
    };
}

/// Kernels of any operation: one for all input modes, whose protocol is an argument too.
macro_rules! any_world {
    ($module:literal, $T:ty, $W:literal) => {
        entries! { m, args, $W;
            concat!($module, "_ops__one_shot_w", $W) => one_shot::<_, $T, $W>(m, Protocol::decode(args.protocol as u32));
            concat!($module, "_ops__two_shot_w", $W) => two_shot::<_, $T, $W>(m, Protocol::decode(args.protocol as u32));
            concat!($module, "_ops__one_shot_push_w", $W), lane = one_shot_push::lane::<_, $T>(m)
                => one_shot_push::one_shot_push_on::<_, $T, $W>(m, lane);
            concat!($module, "_ops__two_shot_push_w", $W), lane = two_shot_push::lane::<_, $T, $W>(m)
                => two_shot_push::two_shot_push_on::<_, $T, $W>(m, lane);
            concat!($module, "_ops__one_pass_w", $W) => one_pass::<_, $T, $W>(m, ONE_PASS);
        }
        entries! { m, args, $W, CAPTURED;
            concat!($module, "_ops_captured__one_shot_w", $W) => one_shot::<_, $T, $W>(m, ONE_SHOT);
            concat!($module, "_ops_captured__two_shot_w", $W) => two_shot::<_, $T, $W>(m, TWO_SHOT);
            concat!($module, "_ops_captured__one_pass_w", $W) => one_pass::<_, $T, $W>(m, ONE_PASS);
        }
    };
}

macro_rules! any {
    ($module:literal, $T:ty) => {
        any_world!($module, Any<$T>, 2);
        any_world!($module, Any<$T>, 3);
        any_world!($module, Any<$T>, 4);
        any_world!($module, Any<$T>, 5);
        any_world!($module, Any<$T>, 6);
        any_world!($module, Any<$T>, 7);
        any_world!($module, Any<$T>, 8);
        entries! { m, args, EXCHANGE_RANKS;
            concat!($module, "_ops__exchange_w2") => exchange::<_, Any<$T>>(m, Protocol::decode(args.protocol as u32));
        }
        entries! { m, args, EXCHANGE_RANKS, CAPTURED;
            concat!($module, "_ops_captured__exchange_w2") => exchange::<_, Any<$T>>(m, EXCHANGE);
        }
        entries! { m, args, 1;
            concat!($module, "_ops__one_shot_w1") => one_shot::<_, Any<$T>, 1>(m, ONE_SHOT);
        }
        entries! { m, args, MAX_RANKS;
            concat!($module, "__stage") => stage::stage::<_, Any<$T>>(m);
            concat!($module, "_verify__fill") => verify::fill::<_, Any<$T>>(m);
            concat!($module, "_verify__check") => verify::check::<_, Any<$T>>(m);
        }
    };
}

/// Kernels that sum, for the types that models are trained and served in.
macro_rules! sums {
    ($module:literal, $T:ty) => {
        world!($module, $T, 2);
        world!($module, $T, 3);
        world!($module, $T, 4);
        world!($module, $T, 5);
        world!($module, $T, 6);
        world!($module, $T, 7);
        world!($module, $T, 8);
        entries! { m, args, EXCHANGE_RANKS;
            concat!($module, "__exchange_w2") => exchange::<_, $T>(m, EXCHANGE);
            concat!($module, "__exchange_copied_w2") => exchange::<_, $T>(m, EXCHANGE_COPIED);
        }
        entries! { m, args, EXCHANGE_RANKS, CAPTURED;
            concat!($module, "_captured__exchange_w2") => exchange::<_, $T>(m, EXCHANGE);
        }
        entries! { m, args, 1;
            concat!($module, "__one_shot_w1") => one_shot::<_, $T, 1>(m, ONE_SHOT);
        }
    };
}

/// Stress runs: any protocol, on a machine with planted delays, and whose marks are kept. One dtype is enough for a question of order.
macro_rules! stress {
    ($($W:literal)*) => { $(
        entries! { m, args, $W, STRESS;
            concat!("bf16_stress__one_shot_w", $W) => one_shot::<_, Bf16, $W>(&delayed(m, &args), Protocol::decode(args.protocol as u32));
            concat!("bf16_stress__one_shot_push_w", $W) => one_shot_push::one_shot_push::<_, Bf16, $W>(&delayed(m, &args));
            concat!("bf16_stress__two_shot_push_w", $W) => two_shot_push::two_shot_push::<_, Bf16, $W>(&delayed(m, &args));
            concat!("bf16_stress__one_pass_w", $W) => one_pass::<_, Bf16, $W>(&delayed(m, &args), ONE_PASS);
            concat!("bf16_stress__two_shot_w", $W) => two_shot::<_, Bf16, $W>(&delayed(m, &args), Protocol::decode(args.protocol as u32));
        }
    )* };
}

#[inline(always)]
fn delayed<M: Machine + Copy>(machine: &M, args: &KernelArgs) -> Delayed<M> {
    Delayed { machine: *machine, nanoseconds: args.delay_ns, one_in: args.delay_one_in }
}

stress!(2 3 4 5 6 7 8);
entries! { m, args, EXCHANGE_RANKS, STRESS;
    "bf16_stress__exchange_w2" => exchange::<_, Bf16>(&delayed(m, &args), Protocol::decode(args.protocol as u32));
}
sums!("f32", F32);
sums!("f16", F16);
sums!("bf16", Bf16);
sums!("i32", I32);
any!("f32", f32);
any!("f16", half::f16);
any!("bf16", half::bf16);
any!("i32", i32);
any!("f64", f64);
any!("e4m3", E4m3);
any!("e5m2", E5m2);
any!("i8", i8);
any!("i64", i64);
