//! The rules. Each gets a file's path from the root and its text, and gives lines, each with what to do there.

use std::path::Path;

use super::source::Source;

type Found = Vec<(usize, String)>;

/// A rule.
pub type Rule = fn(&Path, &Source) -> Found;

/// All rules.
pub const ALL: [Rule; 6] = [header, length, homes, order_lines, no_wildcard, no_leftovers];

/// Most lines of a file whose header gives no reason for more.
const MOST_LINES: usize = 300;

/// Lines above a flag operation among which its `// ORDER:` must be.
const ORDER_LINES: usize = 6;

/// Words that have one home, by the start of the paths that may have them.
const HOMES: [(&[&str], &[&str], &str); 3] = [
    (
        &["asm!", "global_asm!"],
        &["kernels-gpu/src/ptx/machine.rs"],
        "inline assembly lives in kernels-gpu/src/ptx/machine.rs: make it an operation of the machine",
    ),
    (
        &["cust::sys", "cust_raw"],
        // A test allocates as others do, and not as this library does.
        &["host/src/cuda/raw.rs", "host/src/cuda/raw/", "host/src/cuda/driver", "tests/src/machine/pieces.rs"],
        "raw driver calls live in host/src/cuda/raw: put a safe function there",
    ),
    (
        &["target_arch"],
        &["kernels-gpu/src/lib.rs"],
        "the one target cfg is in kernels-gpu/src/lib.rs: make it a module there",
    ),
];

fn header(_: &Path, source: &Source) -> Found {
    if source.text.starts_with("//!") {
        return Vec::new();
    }
    vec![(1, "open the file with `//!`: what lives here, what it may use".to_string())]
}

fn length(_: &Path, source: &Source) -> Found {
    let reason = source
        .text
        .lines()
        .take_while(|line| line.starts_with("//!"))
        .any(|line| line.strip_prefix("//! Long:").is_some_and(|reason| !reason.trim().is_empty()));
    let lines = source.text.lines().count();
    if lines <= MOST_LINES || reason {
        return Vec::new();
    }
    let what = format!("{lines} lines: split it, or give the reason on a line `//! Long: …` (limit {MOST_LINES})");
    vec![(MOST_LINES + 1, what)]
}

fn homes(path: &Path, source: &Source) -> Found {
    let mut found = Vec::new();
    for (words, homes, what) in HOMES {
        if homes.iter().any(|home| path.to_string_lossy().starts_with(home)) {
            continue;
        }
        let has = |line: &str| words.iter().any(|word| has_word(line, word));
        found.extend(lines_where(&source.code, has).map(|line| (line, what.to_string())));
    }
    found
}

fn order_lines(path: &Path, source: &Source) -> Found {
    if !path.starts_with("kernels-gpu/src/protocol") {
        return Vec::new();
    }
    let comments: Vec<_> = source.comments.lines().collect();
    let calls = lines_where(&source.code, |line| {
        let names = ["st_flag_", "ld_flag_", "push_pack(", "poll_pack(", "clear_pack(", "fence("];
        let names = names.into_iter().chain(["push_pairs(", "poll_pairs(", "clear_pairs("]);
        let operations = names.flat_map(|name| line.match_indices(name));
        operations.into_iter().any(|(at, _)| line[..at].ends_with(['.', ':']))
    });
    let argued = |line: usize| {
        let above = &comments[line.saturating_sub(ORDER_LINES + 1)..line];
        above.iter().any(|comment| comment.trim_start().starts_with("// ORDER:"))
    };
    let what = "a flag operation without `// ORDER:` in the 6 lines above: name its partner, what it publishes or \
                receives, why not weaker and why not stronger";
    calls.filter(|line| !argued(*line)).map(|line| (line, what.to_string())).collect()
}

fn no_wildcard(path: &Path, source: &Source) -> Found {
    if !path.starts_with("host/src") && !path.starts_with("kernels-gpu/src/protocol") {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (at, _) in source.code.match_indices("match ").filter(|(at, _)| begins_word(&source.code, *at)) {
        let arms = arms(&source.code, at);
        let named = |name: &str| arms.iter().any(|(_, pattern)| pattern.contains(name));
        let Some(name) = ["Algorithm::", "Dtype::"].into_iter().find(|name| named(name)) else { continue };
        for (at, _) in arms.iter().filter(|(_, pattern)| *pattern == "_" || pattern.starts_with("_ if ")) {
            let line = source.code[..*at].matches('\n').count() + 1;
            let kind = name.trim_end_matches(':');
            found.push((
                line,
                format!("a wildcard in a match on {kind}: name every variant, so that a new one is seen"),
            ));
        }
    }
    found
}

/// The arms of the `match` at `start`: where each pattern ends, and the pattern.
fn arms(code: &str, start: usize) -> Vec<(usize, &str)> {
    let mut arms = Vec::new();
    let (mut braces, mut brackets) = (0, 0);
    let mut pattern = start;
    for (at, letter) in code[start..].char_indices().map(|(at, letter)| (start + at, letter)) {
        match letter {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            '{' if brackets == 0 => {
                braces += 1;
                if braces == 1 {
                    pattern = at + 1;
                }
            }
            '}' if brackets == 0 => {
                braces -= 1;
                if braces == 0 {
                    break;
                }
                // The end of an arm's block; or of a pattern with fields, which only makes the pattern shorter.
                if braces == 1 {
                    pattern = at + 1;
                }
            }
            ',' if brackets == 0 && braces == 1 => pattern = at + 1,
            '>' if brackets == 0 && braces == 1 && code[..at].ends_with('=') && pattern < at => {
                arms.push((at, code[pattern..at - 1].trim_matches([' ', '\n', ','])));
            }
            ';' if braces == 0 && brackets == 0 => break,
            _ => {}
        }
    }
    arms
}

fn no_leftovers(_: &Path, source: &Source) -> Found {
    let marks = ["TODO", "FIXME", "XXX"];
    let noted = lines_where(&source.comments, |line| marks.iter().any(|mark| has_word(line, mark)));
    let coded = lines_where(&source.code, |line| ["todo!", "unimplemented!"].iter().any(|mark| has_word(line, mark)));
    noted
        .chain(coded)
        .map(|line| (line, "something left over: do it, or file it and remove the mark".to_string()))
        .collect()
}

fn lines_where(text: &str, test: impl Fn(&str) -> bool) -> impl Iterator<Item = usize> {
    text.lines().enumerate().filter(move |(_, line)| test(line)).map(|(index, _)| index + 1)
}

/// Whether `word` is in `line`, not as the end or the start of a longer one.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let after = line[at + word.len()..].chars().next();
        begins_word(line, at) && !after.is_some_and(|letter| letter.is_alphanumeric())
    })
}

fn begins_word(text: &str, at: usize) -> bool {
    !text[..at].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_')
}
