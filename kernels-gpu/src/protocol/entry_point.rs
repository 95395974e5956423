//! The names of the entry points, for whoever loads them; `ptx/entry.rs` spells the same names out.
//!
//! A name is `{module}__{kernel}`. Modules are apart by dtype, and the presets, the kernels of any operation and the stamp kernels from sums by
//! our own protocol, so that nobody pays for the compilation of what they do not use.

use core::fmt::{self, Display, Formatter};

use super::abi::{Algorithm, Dtype, InputMode, ReduceOp};

/// One kernel in the PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryPoint {
    /// An all-reduce over `world` ranks; for 1 there is only our own registered one-shot.
    AllReduce {
        /// Element type.
        dtype: Dtype,
        /// What it can do to the terms.
        does: Does,
        /// The algorithm.
        algorithm: Algorithm,
        /// How its protocol gets into it.
        form: Form,
        /// Ranks.
        world: u32,
    },
    /// The copy before an all-reduce's kernel.
    Stage(Dtype),
    /// Writes stamps.
    FillStamps(Dtype),
    /// Checks sums of stamps.
    CheckStamps(Dtype),
}

/// What a kernel can do to the terms of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Does {
    /// Sums, and nothing is decided when it runs. There are such kernels for some dtypes: [`Dtype::has_sums`].
    Sums,
    /// Whatever its arguments say. There is one for every input mode, which decodes its protocol as well.
    AnyOp,
}

impl Does {
    /// The kernels that do `op` to elements of `dtype`.
    pub const fn of(dtype: Dtype, op: ReduceOp) -> Does {
        match op {
            ReduceOp::Sum if dtype.has_sums() => Does::Sums,
            ReduceOp::Sum | ReduceOp::Product | ReduceOp::Min | ReduceOp::Max | ReduceOp::Avg => Does::AnyOp,
        }
    }
}

/// How a kernel comes by its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Our own protocol, for this input mode, is compiled in.
    Own(InputMode),
    /// Our own protocol, for a registered input, is compiled in; the buffers stand in a row. A push needs no such form.
    Captured,
    /// It decodes its arguments.
    Any,
    /// It decodes its arguments, has planted delays, and leaves marks. There are such kernels for bf16.
    Stress,
}

impl EntryPoint {
    /// The module that it is in, and what the module's name has behind the dtype's.
    #[inline]
    const fn module_parts(&self) -> (Dtype, &'static str) {
        match *self {
            EntryPoint::AllReduce { dtype, does, form, .. } => {
                let rest = match (does, form) {
                    (Does::Sums, Form::Own(_)) => "",
                    (Does::Sums, Form::Captured) => "_captured",
                    (Does::Sums, Form::Any) => "_presets",
                    (Does::Sums, Form::Stress) => "_stress",
                    (Does::AnyOp, Form::Own(_) | Form::Any) => "_ops",
                    (Does::AnyOp, Form::Captured) => "_ops_captured",
                    // There is none.
                    (Does::AnyOp, Form::Stress) => "_ops_stress",
                };
                (dtype.kernels(), rest)
            }
            EntryPoint::Stage(dtype) => (dtype.kernels(), ""),
            EntryPoint::FillStamps(dtype) | EntryPoint::CheckStamps(dtype) => (dtype.kernels(), "_verify"),
        }
    }

    /// Element type; a signed integer for the unsigned one as well.
    #[inline]
    pub const fn dtype(&self) -> Dtype {
        self.module_parts().0
    }

    /// The module, as `bf16_presets`.
    #[inline]
    pub fn module(&self) -> impl Display + use<> {
        struct Module(Dtype, &'static str);
        impl Display for Module {
            #[inline]
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", self.0.name(), self.1)
            }
        }
        let (dtype, rest) = self.module_parts();
        Module(dtype, rest)
    }
}

impl Display for EntryPoint {
    #[inline]
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}__", self.module())?;
        match *self {
            EntryPoint::AllReduce { does: Does::Sums, algorithm, form: Form::Own(input), world, .. } => {
                let form = match (algorithm, input) {
                    // A two-shot does the same whatever was there before its launch.
                    (_, InputMode::Registered) | (Algorithm::TwoShot, InputMode::Memcpy) => "",
                    (Algorithm::OneShot, InputMode::Memcpy) => "_memcpy",
                    (Algorithm::OneShot | Algorithm::TwoShot, InputMode::Copied)
                    | (Algorithm::Exchange, InputMode::Memcpy | InputMode::Copied) => "_copied",
                    // A push reads its own input, wherever that is; a one-pass has no other form.
                    (Algorithm::OneShotPush | Algorithm::TwoShotPush | Algorithm::OnePass, _) => "",
                };
                write!(f, "{}{form}_w{world}", algorithm.name())
            }
            EntryPoint::AllReduce { algorithm, world, .. } => {
                write!(f, "{}_w{world}", algorithm.name())
            }
            EntryPoint::Stage(_) => f.write_str("stage"),
            EntryPoint::FillStamps(_) => f.write_str("fill"),
            EntryPoint::CheckStamps(_) => f.write_str("check"),
        }
    }
}
