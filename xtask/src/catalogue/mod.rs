//! `catalogue [--check]`: which test shows that a failure others met does not happen here.
//!
//! `tests/catalogue.txt` has the failures, a line each, and for those that cannot arise here the reason. A test says by its name
//! which of them it is for: `b17_b23_…`. `tests/CATALOGUE.md` puts the two together.

use anyhow::{Result, bail};

use crate::shell;

mod page;
mod rows;
mod runs;
mod scan;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod toolchain;

/// The list of failures, from the root.
const LIST: &str = "tests/catalogue.txt";
/// The page, from the root.
const PAGE: &str = "tests/CATALOGUE.md";
/// The folders whose files may have tests.
const FOLDERS: [&str; 5] = ["kernels-gpu", "host", "examples", "tests", "xtask"];
/// What files with tests end with.
const EXTENSIONS: [&str; 2] = ["rs", "py"];

/// Reads the list and the names of all tests, then writes or compares the page.
///
/// # Errors
///
/// When list and names do not go together, a file cannot be read, or `check` finds another page.
pub fn run(check: bool) -> Result<()> {
    let root = shell::root();
    let mut files = Vec::new();
    for (folder, extension) in FOLDERS.into_iter().flat_map(|folder| EXTENSIONS.map(|extension| (folder, extension))) {
        for path in shell::files(&root.join(folder), extension)? {
            files.push((path.strip_prefix(&root)?.to_string_lossy().into_owned(), shell::text(&path)?));
        }
    }
    files.sort();
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let made = make(&shell::text(&root.join(LIST))?, &files);
    made.pending.iter().for_each(|line| println!("catalogue: {line}"));
    made.wrong.iter().for_each(|line| println!("{line}"));
    if !made.wrong.is_empty() {
        bail!("{} lines of {LIST} and names of tests do not go together", made.wrong.len());
    }
    let page = root.join(PAGE);
    if check && shell::text(&page).ok().as_deref() != Some(&made.page) {
        bail!("{PAGE} is out of date\nmend it with: cargo xtask catalogue");
    }
    println!("catalogue: {}", made.counts);
    if check { Ok(()) } else { shell::write(&page, &made.page) }
}

/// What list and tests give.
struct Made {
    page: String,
    /// How many rows have what.
    counts: String,
    /// What is wrong, a line each.
    wrong: Vec<String>,
    /// What is not done yet, a line each.
    pending: Vec<String>,
}

/// Puts the list and the tests of `files`, by path from the root, together.
fn make(list: &str, files: &[(&str, &str)]) -> Made {
    let (rows, mut wrong) = rows::read(list);
    let (tests, stray) = scan::tests(files);
    wrong.extend(stray);
    for test in &tests {
        for id in test.ids.iter().filter(|id| rows.iter().all(|row| row.id != **id)) {
            wrong.push(format!("{}: {} is for {id}, which is no row of {LIST}", test.path, test.name));
        }
    }
    let mut pending = Vec::new();
    for row in &rows {
        let test = tests.iter().find(|test| test.ids.contains(&row.id));
        match (&row.reason, test) {
            (Some(reason), _) if rows::is_pending(reason) => pending.push(format!("{} {reason}", row.id)),
            (Some(_), Some(test)) => wrong.push(format!(
                "{LIST}: {} cannot arise, it says, and {} in {} tests it: take one of them away",
                row.id, test.name, test.path
            )),
            (None, None) => wrong
                .push(format!("{LIST}: {} has no test, and no reason why it cannot arise: {}", row.id, row.failure)),
            (Some(_), None) | (None, Some(_)) => {}
        }
    }
    let (page, counts) = page::render(&rows, &tests);
    Made { page, counts, wrong, pending }
}
