//! PTX text to kernels: instructions with their lines, labels and trailing comments. Knows no rule.

use std::collections::HashMap;

/// Name given to what stands outside all kernels.
pub const OUTSIDE: &str = "(module)";

/// A PTX file.
#[derive(Default)]
pub struct Module {
    /// Its kernels and functions, in order.
    pub kernels: Vec<Kernel>,
    /// Directives outside of them, with their lines.
    pub directives: Vec<(usize, String)>,
}

/// A kernel, or a function.
#[derive(Default)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Line of its head, from 1.
    pub line: usize,
    /// Its instructions, in order.
    pub code: Vec<Instruction>,
    /// Directives in its body (`.reg`, `.local`, …), with their lines.
    pub directives: Vec<(usize, String)>,
    /// Instruction that follows each label.
    pub labels: HashMap<String, usize>,
    /// Targets of each table of an indirect branch.
    pub tables: HashMap<String, Vec<String>>,
}

/// An instruction.
pub struct Instruction {
    /// Line on which it starts, from 1.
    pub line: usize,
    /// Whether a predicate decides if it is done.
    pub guarded: bool,
    /// `ld.global.u64`.
    pub opcode: String,
    /// All after the opcode.
    pub operands: String,
    /// The comment at the end of its line.
    pub note: String,
}

impl Instruction {
    /// The parts of the opcode: `ld`, `global`, `u64`.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.opcode.split(['.', ':']).filter(|part| !part.is_empty())
    }

    /// The first part of the opcode.
    pub fn verb(&self) -> &str {
        self.parts().next().unwrap_or_default()
    }
}

impl Module {
    /// Reads `text`, which must be what LLVM's printer writes: a brace that opens or closes a body has a line's end.
    pub fn parse(text: &str) -> Module {
        let mut module = Module::default();
        let mut head: Option<(usize, String)> = None;
        let mut body: Option<Body> = None;
        for (index, raw) in text.lines().enumerate() {
            let line = index + 1;
            let (code, note) = raw.split_once("//").unwrap_or((raw, ""));
            let (code, note) = (code.trim(), note.trim());
            if let Some(open) = &mut body {
                open.line(line, code, note);
                if open.depth == 0 {
                    module.kernels.extend(body.take().map(|open| open.kernel));
                }
                continue;
            }
            if let Some(name) = name_in(code) {
                head = Some((line, name.to_string()));
            }
            if code.starts_with('.') {
                module.directives.push((line, code.to_string()));
            }
            if code.ends_with('{')
                && let Some((line, name)) = head.take()
            {
                body = Some(Body::of(Kernel { name, line, ..Kernel::default() }));
            }
        }
        module
    }

    /// The name of the kernel in which `line` is.
    pub fn kernel_at(&self, line: usize) -> &str {
        let before = self.kernels.iter().take_while(|kernel| kernel.line <= line);
        before.last().map_or(OUTSIDE, |kernel| &kernel.name)
    }
}

/// A body that is being read; statements end at `;` and may take several lines.
#[derive(Default)]
struct Body {
    kernel: Kernel,
    depth: usize,
    statement: String,
    started: usize,
    table: Option<String>,
}

impl Body {
    fn of(kernel: Kernel) -> Body {
        Body { kernel, depth: 1, ..Body::default() }
    }

    fn line(&mut self, line: usize, code: &str, note: &str) {
        let mut rest = code;
        while self.depth > 0 && !rest.is_empty() {
            if self.statement.is_empty() {
                self.started = line;
                if let Some(after) = self.between_statements(rest) {
                    rest = after.trim_start();
                    continue;
                }
            }
            let Some((part, after)) = rest.split_once(';') else {
                self.statement += &format!("{rest} ");
                return;
            };
            let statement = std::mem::take(&mut self.statement) + part.trim();
            self.statement(&statement, note);
            rest = after.trim_start();
        }
    }

    /// What follows a brace or a label at the start of `rest`.
    fn between_statements<'a>(&mut self, rest: &'a str) -> Option<&'a str> {
        if let Some(after) = rest.strip_prefix('{') {
            self.depth += 1;
            return Some(after);
        }
        if let Some(after) = rest.strip_prefix('}') {
            self.depth -= 1;
            return Some(after);
        }
        let (label, after) = rest.split_once(':')?;
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '$' || letter == '_';
        if label.is_empty() || !label.chars().all(is_name) || after.starts_with(':') {
            return None;
        }
        self.kernel.labels.insert(label.to_string(), self.kernel.code.len());
        self.table = Some(label.to_string());
        Some(after)
    }

    fn statement(&mut self, statement: &str, note: &str) {
        let table = self.table.take();
        if statement.starts_with('.') {
            if let (Some(targets), Some(table)) = (statement.strip_prefix(".branchtargets"), table) {
                let targets = targets.split(',').map(|target| target.trim().to_string()).collect();
                self.kernel.tables.insert(table, targets);
            }
            self.kernel.directives.push((self.started, statement.to_string()));
            return;
        }
        let (guarded, statement) = match statement.strip_prefix('@') {
            Some(guarded) => (true, guarded.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim_start())),
            None => (false, statement),
        };
        let (opcode, operands) = statement.split_once(char::is_whitespace).unwrap_or((statement, ""));
        self.kernel.code.push(Instruction {
            line: self.started,
            guarded,
            opcode: opcode.to_string(),
            operands: operands.trim().to_string(),
            note: note.to_string(),
        });
    }
}

/// The name in the head of a kernel or a function with a body.
fn name_in(code: &str) -> Option<&str> {
    let (before, after) = code.split_once(".entry ").or_else(|| code.split_once(".func "))?;
    if before.contains(".extern") {
        return None;
    }
    // A function's result comes before its name, in parentheses.
    let after = after.trim_start();
    let after = if after.starts_with('(') { after.split_once(')')?.1 } else { after };
    after.split('(').next().map(str::trim)
}
