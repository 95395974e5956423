//! `tidy`: the house rules that no compiler checks, each a function from a source file to what is wrong with it.

use std::path::Path;

use anyhow::{Result, bail};

use crate::shell;

mod rules;
pub mod source;
#[cfg(test)]
mod tests;

use source::Source;

/// Checks every Rust file of the workspace.
///
/// # Errors
///
/// When a rule is broken, or a file cannot be read.
pub fn run() -> Result<()> {
    let root = shell::root();
    let mut wrong = Vec::new();
    let mut count = 0;
    for package in ["kernels-gpu", "host", "examples", "tests", "xtask"] {
        for path in shell::files(&root.join(package), "rs")? {
            let name = path.strip_prefix(&root)?.to_string_lossy().into_owned();
            wrong.extend(check(&name, &shell::text(&path)?));
            count += 1;
        }
    }
    for line in &wrong {
        println!("{line}");
    }
    if !wrong.is_empty() {
        bail!("{} house rules broken in {count} files", wrong.len());
    }
    println!("tidy: {count} files, nothing found");
    Ok(())
}

/// All that is wrong with the file `name`, a path from the root: `file:line: what to do`.
fn check(name: &str, text: &str) -> Vec<String> {
    let source = Source::new(text);
    let mut found: Vec<_> = rules::ALL.iter().flat_map(|rule| rule(Path::new(name), &source)).collect();
    found.sort();
    found.into_iter().map(|(line, what)| format!("{name}:{line}: {what}")).collect()
}
