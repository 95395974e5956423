//! `model`: asks the kernels' own source, under the model checker, which barrier each all-reduce needs.
//!
//! Built with the release profile: the whole run takes minutes as it is.

use anyhow::Result;

use crate::shell;

/// Writes `docs/barriers.md`, or checks it.
///
/// # Errors
///
/// When the model cannot be built, or the page is not what it says.
pub fn run(check: bool, quick: bool, text: bool) -> Result<()> {
    let mut model = shell::cargo();
    model.args(["run", "--release", "--package", "allfold-model", "--bin", "model", "--"]);
    let flags = [(check, "--check"), (quick, "--quick"), (text, "--text")];
    model.args(flags.into_iter().filter_map(|(given, flag)| given.then_some(flag)));
    shell::run(&mut model)
}
