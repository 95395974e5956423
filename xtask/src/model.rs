//! `model`: asks the kernels' own source, under the model checker, which barrier each all-reduce needs.
//!
//! The whole run takes a quarter of an hour as it is, so it has the release profile; the quick one has that of the tests.

use anyhow::Result;

use crate::shell;

/// Writes `docs/barriers.md`, or checks it.
///
/// # Errors
///
/// When the model cannot be built, or the page is not what it says.
pub fn run(check: bool, quick: bool, text: bool) -> Result<()> {
    let mut model = shell::cargo();
    model.args(["run", "--profile", if quick { "dev" } else { "release" }]);
    model.args(["--package", "allfold-model", "--bin", "model", "--"]);
    let flags = [(check, "--check"), (quick, "--quick"), (text, "--text")];
    model.args(flags.into_iter().filter_map(|(given, flag)| given.then_some(flag)));
    shell::run(&mut model)
}
