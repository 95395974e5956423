//! Tests and properties whose names carry ids, found in the text of Rust and Python files.

use super::runs;
use crate::tidy::source::Source;

/// Where the suite's properties are; their list names those that processes run.
const PROPERTIES: &str = "tests/src/properties/";

/// A test, or a property of the suite.
#[derive(Debug, PartialEq, Eq)]
pub struct Test {
    /// The failures that it is for, as `B17`.
    pub ids: Vec<String>,
    /// Its name.
    pub name: String,
    /// Its file, from the root.
    pub path: String,
    /// What it runs on.
    pub runs: String,
}

/// All that carry ids, in the order of `files`; and names with ids of what is no test.
pub fn tests(files: &[(&str, &str)]) -> (Vec<Test>, Vec<String>) {
    let list = format!("{PROPERTIES}mod.rs");
    let list = files.iter().find(|(path, _)| *path == list).map_or("", |(_, text)| text);
    let (mut tests, mut stray) = (Vec::new(), Vec::new());
    for &(path, text) in files {
        let found = if path.ends_with(".py") { python(text) } else { rust(path, text) };
        for Found { name, line, is_test, body } in found {
            let ids = ids(name.strip_prefix("test_").unwrap_or(&name));
            if ids.is_empty() {
                continue;
            }
            if !is_test {
                stray.push(format!("{path}:{line}: {name} has an id in its name and is no test"));
                continue;
            }
            let runs = match path.strip_prefix(PROPERTIES) {
                Some(_) => runs::of_property(&name, &body, list),
                None => runs::of_test(path, text).to_string(),
            };
            tests.push(Test { ids, name, path: path.to_string(), runs });
        }
    }
    (tests, stray)
}

/// A function that may be a test.
struct Found {
    name: String,
    line: usize,
    is_test: bool,
    body: String,
}

fn rust(path: &str, text: &str) -> Vec<Found> {
    let code = Source::new(text).code;
    let lines: Vec<_> = code.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let words: Vec<_> = line.split_whitespace().collect();
        let Some(at) = words.iter().position(|&word| word == "fn") else { continue };
        let Some(name) = words.get(at + 1).and_then(|name| name.split(['(', '<']).next()) else { continue };
        let attributes = lines[..index].iter().rev().map(|line| line.trim()).take_while(|line| line.starts_with("#["));
        let is_property = path.starts_with(PROPERTIES) && line.contains("(bench: &Bench) -> Result<Outcome>");
        let is_test = is_property || attributes.into_iter().any(|attribute| attribute == "#[test]");
        // A function at the margin ends with the first brace there.
        let body = lines[index..].iter().take_while(|line| **line != "}").copied().collect::<Vec<_>>().join("\n");
        found.push(Found { name: name.to_string(), line: index + 1, is_test, body });
    }
    found
}

fn python(text: &str) -> Vec<Found> {
    let functions = text.lines().enumerate().filter_map(|(index, line)| {
        let name = line.trim_start().strip_prefix("def ")?.split('(').next()?;
        let is_test = name.starts_with("test_");
        Some(Found { name: name.to_string(), line: index + 1, is_test, body: String::new() })
    });
    functions.collect()
}

/// The ids at the start of a name: `b17_b23_lengths` has two.
fn ids(name: &str) -> Vec<String> {
    let id =
        |part: &&str| part.strip_prefix('b').is_some_and(|it| it.len() > 1 && it.bytes().all(|b| b.is_ascii_digit()));
    name.split('_').take_while(id).map(str::to_uppercase).collect()
}
