//! A Rust file, its code and its comments apart, so that a rule on one is not misled by the other or by a string.

/// A file as three texts of the same lines.
pub struct Source<'a> {
    /// All of it.
    pub text: &'a str,
    /// Code, with comments and literals blanked.
    pub code: String,
    /// Comments, with all else blanked.
    pub comments: String,
}

/// What a stretch of a file is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

impl<'a> Source<'a> {
    /// Reads `text`.
    pub fn new(text: &'a str) -> Source<'a> {
        let (mut code, mut comments) = (String::new(), String::new());
        let mut rest = text;
        let mut in_word = false;
        while !rest.is_empty() {
            let (kind, length) = stretch(rest, in_word);
            for letter in rest[..length].chars() {
                let shown = |wanted| if kind == wanted || letter == '\n' { letter } else { ' ' };
                code.push(shown(Kind::Code));
                comments.push(shown(Kind::Comment));
                in_word = letter.is_alphanumeric() || letter == '_';
            }
            rest = &rest[length..];
        }
        Source { text, code, comments }
    }
}

/// What `rest` starts with, and its bytes.
fn stretch(rest: &str, in_word: bool) -> (Kind, usize) {
    let until = |start: usize, end: &str| rest[start..].find(end).map_or(rest.len(), |at| start + at + end.len());
    if rest.starts_with("//") {
        return (Kind::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (Kind::Comment, until(2, "*/"));
    }
    if rest.starts_with('"') {
        return (Kind::Literal, quoted(rest, '"'));
    }
    if !in_word && (rest.starts_with("r\"") || rest.starts_with("r#") || rest.starts_with("br")) {
        let start = rest.find('r').unwrap_or(0) + 1;
        let hashes = rest[start..].bytes().take_while(|&byte| byte == b'#').count();
        if rest[start + hashes..].starts_with('"') {
            return (Kind::Literal, until(start + hashes + 1, &format!("\"{}", "#".repeat(hashes))));
        }
    }
    // A letter in quotes, not a lifetime.
    let mut letters = rest.chars();
    if letters.next() == Some('\'') {
        let (first, second) = (letters.next(), letters.next());
        if first == Some('\\') || second == Some('\'') {
            return (Kind::Literal, quoted(rest, '\''));
        }
    }
    (Kind::Code, rest.chars().next().map_or(1, char::len_utf8))
}

/// Bytes up to and with the quote that closes the one at the start of `rest`.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, letter) in rest.char_indices().skip(1) {
        if letter == quote && !escaped {
            return at + 1;
        }
        escaped = letter == '\\' && !escaped;
    }
    rest.len()
}
