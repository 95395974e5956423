//! Which instance of the kernels' source a job runs: the CPU's counterpart of the entry points.

use allfold_kernels::protocol::abi::{Algorithm, Dtype, KernelArgs};
use allfold_kernels::protocol::delayed::Delayed;
use allfold_kernels::protocol::element::{Any, E4m3, E5m2, Element};
use allfold_kernels::protocol::exchange::exchange;
use allfold_kernels::protocol::machine::Machine;
use allfold_kernels::protocol::one_pass::one_pass;
use allfold_kernels::protocol::one_shot::one_shot;
use allfold_kernels::protocol::one_shot_push::one_shot_push;
use allfold_kernels::protocol::spec::Protocol;
use allfold_kernels::protocol::two_shot::two_shot;
use allfold_kernels::protocol::two_shot_push::two_shot_push;
use allfold_kernels::protocol::{stage, verify};

use super::machine::Cpu;

/// What a job does.
#[derive(Clone, Copy)]
pub(super) enum Kernel {
    AllReduce(Algorithm),
    Stage,
    FillStamps,
    CheckStamps,
}

/// Runs `kernel` as the thread `m`.
pub(super) fn run(kernel: Kernel, dtype: Dtype, args: &KernelArgs, m: &Cpu<'_>) {
    // Fuzzing runs none, and a compiler takes very long to instrument them.
    if const { cfg!(fuzzing) } {
        return;
    }
    match dtype {
        Dtype::F32 => run_typed::<Any<f32>>(kernel, args, m),
        Dtype::F16 => run_typed::<Any<half::f16>>(kernel, args, m),
        Dtype::Bf16 => run_typed::<Any<half::bf16>>(kernel, args, m),
        Dtype::F64 => run_typed::<Any<f64>>(kernel, args, m),
        Dtype::E4m3 => run_typed::<Any<E4m3>>(kernel, args, m),
        Dtype::E5m2 => run_typed::<Any<E5m2>>(kernel, args, m),
        Dtype::I8 | Dtype::U8 => run_typed::<Any<i8>>(kernel, args, m),
        Dtype::I32 | Dtype::U32 => run_typed::<Any<i32>>(kernel, args, m),
        Dtype::I64 | Dtype::U64 => run_typed::<Any<i64>>(kernel, args, m),
    }
}

fn run_typed<T: Element>(kernel: Kernel, args: &KernelArgs, m: &Cpu<'_>) {
    match kernel {
        Kernel::AllReduce(algorithm) => all_reduce::<T>(algorithm, args, m),
        Kernel::Stage => stage::stage::<_, T>(m),
        Kernel::FillStamps => verify::fill::<_, T>(m),
        Kernel::CheckStamps => verify::check::<_, T>(m),
    }
}

fn all_reduce<T: Element>(algorithm: Algorithm, args: &KernelArgs, m: &Cpu<'_>) {
    if !m.knows_buffers() {
        return;
    }
    match args.delay_one_in {
        0 => of_world::<_, T>(algorithm, args, m),
        one_in => {
            // `setup` sees to it; and so many kernels more would take long to compile.
            assert_eq!(T::DTYPE, Dtype::Bf16, "delays are for bf16");
            let delayed = Delayed { machine: *m, nanoseconds: args.delay_ns, one_in };
            of_world::<_, Any<half::bf16>>(algorithm, args, &delayed);
        }
    }
}

/// A kernel as a function of its own, as it is on a GPU: all of them in one would take minutes to optimise.
#[inline(never)]
fn apart(kernel: impl FnOnce()) {
    kernel();
}

fn of_world<M: Machine, T: Element>(algorithm: Algorithm, args: &KernelArgs, m: &M) {
    let protocol = Protocol::decode(args.protocol.into());
    macro_rules! worlds {
        ($($W:literal)*) => {
            match (algorithm, args.world) {
                $(
                    (Algorithm::OneShot, $W) => apart(|| one_shot::<_, T, $W>(m, protocol)),
                    (Algorithm::TwoShot, $W) => apart(|| two_shot::<_, T, $W>(m, protocol)),
                    (Algorithm::OneShotPush, $W) => apart(|| one_shot_push::<_, T, $W>(m)),
                    (Algorithm::TwoShotPush, $W) => apart(|| two_shot_push::<_, T, $W>(m)),
                    (Algorithm::OnePass, $W) => apart(|| one_pass::<_, T, $W>(m, protocol)),
                )*
                (Algorithm::Exchange, 2) => apart(|| exchange::<_, T>(m, protocol)),
                // Ranks are checked when the communicator is made, an exchange's by the plan.
                (
                    Algorithm::OneShot
                    | Algorithm::TwoShot
                    | Algorithm::OneShotPush
                    | Algorithm::TwoShotPush
                    | Algorithm::OnePass
                    | Algorithm::Exchange,
                    world,
                ) => unreachable!("{algorithm:?} over {world} ranks, which no communicator or plan allows"),
            }
        };
    }
    worlds!(1 2 3 4 5 6 7 8);
}
