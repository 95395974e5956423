//! What may be in a kernel's PTX: pure functions on text, and what `ptxas` says of it.
//!
//! | file | what |
//! |---|---|
//! | [`parse`] | PTX text to kernels of instructions, each with its line and its trailing comment |
//! | [`rules`] | what each instruction may be, and which go together |
//! | [`flow`] | which instructions share a loop |
//! | [`ptxas`] | registers, stack, spills and assembly errors |
//! | [`table`] | host/ptx/AUDIT.md |

use std::fmt;

#[cfg(test)]
mod committed;
pub mod flow;
pub mod parse;
pub mod ptxas;
pub mod rules;
pub mod table;
#[cfg(test)]
mod tests;

/// One thing that is wrong.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failure {
    /// Path in the audited folder.
    pub file: String,
    /// Line in it, from 1.
    pub line: usize,
    /// Kernel in which it is; `(module)` outside all.
    pub kernel: String,
    /// What is wrong, in a sentence.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.file, self.line, self.kernel, self.what)
    }
}
