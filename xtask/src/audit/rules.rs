//! The rules: what each memory access may be, what no kernel may have, and what may not share a loop.
//!
//! Kernels name each access by a comment on its line (`// st_flag_release`); the table below says what may stand there.

use super::Failure;
use super::flow::Flow;
use super::parse::{Instruction, Kernel, Module, OUTSIDE};

/// How many bytes an access moves, as far as loops care.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Width {
    /// 16 bytes of data: what main loops are made of.
    Pack,
    /// Less; not in a loop that moves packs.
    Narrow,
    /// A flag, a counter, or data that have landed: none of a caller's buffer.
    Control,
}

/// Every access of the PTX machine: its name, what it moves, and the instructions that it may be.
const ACCESSES: [(&str, Width, &[&str]); 25] = [
    ("st_flag_volatile", Width::Control, &["st.volatile.global.u64"]),
    ("ld_flag_volatile", Width::Control, &["ld.volatile.global.u64"]),
    ("st_flag_release", Width::Control, &["st.release.sys.global.u64"]),
    ("ld_flag_acquire", Width::Control, &["ld.acquire.sys.global.u64"]),
    ("ld_pack", Width::Pack, &["ld.global.v4.u32"]),
    ("st_pack", Width::Pack, &["st.global.v4.u32"]),
    ("ld_landing", Width::Control, &["ld.relaxed.sys.global.v4.u32"]),
    ("st_landing", Width::Control, &["st.relaxed.sys.global.v4.u32"]),
    ("ld_landing_pairs", Width::Control, &["ld.relaxed.sys.global.v2.u64"]),
    ("st_landing_pairs", Width::Control, &["st.relaxed.sys.global.v2.u64"]),
    ("ld_elem", Width::Narrow, &["ld.global.u8", "ld.global.u16", "ld.global.u32", "ld.global.u64"]),
    ("st_elem", Width::Narrow, &["st.global.u8", "st.global.u16", "st.global.u32", "st.global.u64"]),
    ("ld_word", Width::Narrow, &["ld.global.u64", "ld.global.u32"]),
    ("ld_row", Width::Narrow, &["ld.global.u64"]),
    ("st_word", Width::Narrow, &["st.global.u64", "st.global.u32"]),
    ("ld_cursor", Width::Narrow, &["ld.global.v2.u64"]),
    ("st_cursor", Width::Narrow, &["st.global.v2.u64"]),
    ("st_call", Width::Control, &["st.relaxed.sys.global.v2.u64"]),
    ("ld_call", Width::Control, &["ld.relaxed.sys.global.v2.u64"]),
    ("ld_board", Width::Control, &["ld.acquire.sys.global.v2.u64"]),
    ("st_stop", Width::Control, &["st.relaxed.sys.global.u64"]),
    ("red_wait", Width::Control, &["red.global.max.u64"]),
    ("red_mark", Width::Control, &["red.global.max.u64"]),
    ("red_missing", Width::Control, &["red.global.or.b64"]),
    ("red_word", Width::Control, &["red.global.add.u64"]),
];

/// Names of the accesses, in the order of the table.
pub fn names() -> impl Iterator<Item = &'static str> {
    ACCESSES.iter().map(|(name, ..)| *name)
}

/// First parts of the opcodes that touch memory.
const MEMORY: [&str; 12] =
    ["ld", "ldu", "st", "atom", "red", "cp", "multimem", "ldmatrix", "stmatrix", "tex", "suld", "sust"];

/// All that is wrong in `text`, the PTX of `file`, in the order of its lines.
pub fn check(file: &str, text: &str) -> Vec<Failure> {
    let module = Module::parse(text);
    let mut found = Vec::new();
    let mut directives = vec![(OUTSIDE, &module.directives)];
    directives.extend(module.kernels.iter().map(|kernel| (kernel.name.as_str(), &kernel.directives)));
    for (kernel, directives) in directives {
        for (line, directive) in directives {
            let has = |word: &str| directive.split_whitespace().any(|part| part == word);
            if has(".extern") {
                found.push((
                    *line,
                    kernel,
                    "`.extern`: what is not in this module cannot be had on the device".to_string(),
                ));
            }
            if has(".local") {
                found.push((*line, kernel, "`.local`: memory of a thread's own; keep it in registers".to_string()));
            }
        }
    }
    for kernel in &module.kernels {
        let wrong = kernel.code.iter().filter_map(|it| Some((it.line, instruction(kernel, it)?)));
        let wrong = wrong.chain(loops(kernel));
        found.extend(wrong.map(|(line, what)| (line, kernel.name.as_str(), what)));
    }
    let failure = |(line, kernel, what): (usize, &str, String)| Failure {
        file: file.to_string(),
        line,
        kernel: kernel.to_string(),
        what,
    };
    let mut failures: Vec<_> = found.into_iter().map(failure).collect();
    failures.sort();
    failures
}

/// What is wrong with one instruction, seen alone.
fn instruction(kernel: &Kernel, it: &Instruction) -> Option<String> {
    let opcode = &it.opcode;
    if it.verb() == "call" {
        return Some("`call`: a function that was not inlined, a panic among them".to_string());
    }
    if it.parts().any(|part| part == "nc") {
        return Some(format!("`{opcode}`: a cached read, which need not see what a peer wrote"));
    }
    let touches_memory = MEMORY.contains(&it.verb());
    if it.parts().any(|part| part == "local") && touches_memory {
        return Some(format!("`{opcode}`: memory of a thread's own; keep it in registers"));
    }
    if it.verb() == "fence" && opcode != "fence.acq_rel.sys" || it.verb() == "membar" {
        return Some(format!("`{opcode}`: a fence is `fence.acq_rel.sys`"));
    }
    let exempt = it.parts().any(|part| part == "param" || part == "const");
    let access = ACCESSES.iter().find(|(name, ..)| *name == it.note);
    match access {
        None if touches_memory && !exempt => Some(format!("`{opcode}` names no operation of the PTX machine")),
        None => None,
        Some((name, _, may_be)) if !may_be.contains(&opcode.as_str()) => {
            Some(format!("{name} is `{opcode}` and must be `{}`", may_be.join("` or `")))
        }
        Some(("red_word", ..)) if !kernel.name.contains("verify") => {
            Some("red_word outside a verify kernel: an all-reduce adds nothing in memory".to_string())
        }
        Some(_) => None,
    }
}

/// What is wrong with the loops of a kernel. What is less than a pack is moved in loops of its own: no pack access is in the
/// innermost loop that it is in. Such a loop may well lie in one that moves packs, for the pack that is not whole.
fn loops(kernel: &Kernel) -> Vec<(usize, String)> {
    let mut wrong = Vec::new();
    let flow = Flow::of(kernel);
    let is_pack: Vec<_> = kernel.code.iter().map(|it| width(it) == Some(Width::Pack)).collect();
    let with_packs = |at: usize| flow.innermost_loop(at).iter().zip(&is_pack).any(|(within, pack)| *within && *pack);
    for (at, it) in kernel.code.iter().enumerate() {
        if width(it) == Some(Width::Narrow) && with_packs(at) {
            wrong.push((it.line, format!("{} in a main loop: less than 16 bytes at a time", it.note)));
        }
    }
    let reduces = kernel.name.contains("one_shot") || kernel.name.contains("two_shot");
    if reduces && !(0..kernel.code.len()).any(|at| is_pack[at] && with_packs(at)) {
        wrong.push((kernel.line, "an all-reduce without a loop that moves packs".to_string()));
    }
    wrong
}

fn width(it: &Instruction) -> Option<Width> {
    ACCESSES.iter().find(|(name, ..)| *name == it.note).map(|(_, width, _)| *width)
}
