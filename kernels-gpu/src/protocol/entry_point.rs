//! The names of the entry points, for whoever loads them; `ptx/entry.rs` spells the same names out.
//!
//! A name is `{module}__{kernel}`. Modules are apart by dtype, and the presets and the stamp kernels from our own
//! protocol, so that nobody pays for the compilation of what they do not use.

use core::fmt::{self, Display, Formatter};

use super::abi::{Algorithm, Dtype, InputMode};

/// One kernel in the PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryPoint {
    /// An all-reduce over `world` ranks; for 1 there is only our own registered one-shot.
    AllReduce {
        /// Element type.
        dtype: Dtype,
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
    const fn module_parts(&self) -> (Dtype, &'static str) {
        match *self {
            EntryPoint::AllReduce { dtype, form: Form::Own(_), .. } | EntryPoint::Stage(dtype) => (dtype, ""),
            EntryPoint::AllReduce { dtype, form: Form::Captured, .. } => (dtype, "_captured"),
            EntryPoint::AllReduce { dtype, form: Form::Any, .. } => (dtype, "_presets"),
            EntryPoint::AllReduce { dtype, form: Form::Stress, .. } => (dtype, "_stress"),
            EntryPoint::FillStamps(dtype) | EntryPoint::CheckStamps(dtype) => (dtype, "_verify"),
        }
    }

    /// Element type.
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
            EntryPoint::AllReduce { algorithm, form: Form::Own(input), world, .. } => {
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
            EntryPoint::AllReduce { algorithm, form: Form::Captured | Form::Any | Form::Stress, world, .. } => {
                write!(f, "{}_w{world}", algorithm.name())
            }
            EntryPoint::Stage(_) => f.write_str("stage"),
            EntryPoint::FillStamps(_) => f.write_str("fill"),
            EntryPoint::CheckStamps(_) => f.write_str("check"),
        }
    }
}
