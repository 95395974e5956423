//! Each rule fails where it must, on the line where it must, and nowhere else.

use super::check;

const PROTOCOL: &str = "kernels-gpu/src/protocol/barrier.rs";

#[track_caller]
fn found(name: &str, text: &str, line: usize, what: &str) {
    let wrong = check(name, text);
    let [one] = wrong.as_slice() else { panic!("{name}: {wrong:?}") };
    assert!(one.starts_with(&format!("{name}:{line}: ")) && one.contains(what), "{one}");
}

#[track_caller]
fn clean(name: &str, text: &str) {
    assert_eq!(check(name, text), Vec::<String>::new());
}

#[test]
fn a_file_opens_with_its_purpose() {
    found("host/src/a.rs", "// Not a header.\n", 1, "open the file with");
    clean("host/src/a.rs", "//! A header.\n");
}

#[test]
fn a_long_file_has_a_reason() {
    let lines = |header: &str, count: usize| format!("{header}\n{}", "const A: u8 = 0;\n".repeat(count - 1));
    clean("host/src/a.rs", &lines("//! A header.", 300));
    found("host/src/a.rs", &lines("//! A header.", 301), 301, "301 lines");
    clean("host/src/a.rs", &lines("//! A header.\n//! Long: one table.", 400));
    found("host/src/a.rs", &lines("//! A header.\n//! Long:", 400), 301, "401 lines");
}

#[test]
fn assembly_raw_calls_and_targets_have_one_home() {
    let assembly = "//! A.\nfn a() { core::arch::asm!(\"\"); }\n";
    found("kernels-gpu/src/ptx/entry.rs", assembly, 2, "inline assembly");
    found("host/src/a.rs", "//! A.\nglobal_asm!(\"\");\n", 2, "inline assembly");
    clean("kernels-gpu/src/ptx/machine.rs", assembly);
    let raw = "//! A.\nuse cust::sys as cuda;\n";
    found("host/src/cuda/workspace.rs", raw, 2, "raw driver calls");
    clean("host/src/cuda/raw.rs", raw);
    clean("host/src/cuda/raw/memory.rs", raw);
    clean("host/src/cuda/driver/table.rs", raw);
    let target = "//! A.\n#[cfg(target_arch = \"nvptx64\")]\nmod a;\n";
    found("host/src/lib.rs", target, 2, "target cfg");
    clean("kernels-gpu/src/lib.rs", target);
    // A comment or a string that names them is no use of them.
    clean("host/src/a.rs", "//! No `asm!` and no cust::sys.\nconst A: &str = \"asm! target_arch\"; // cust::sys\n");
}

#[test]
fn a_flag_operation_is_argued() {
    let call = "fn a(m: &M) {\n    m.st_flag_release(Rank(0), row, epoch);\n}\n";
    found(PROTOCOL, &format!("//! A.\n{call}"), 3, "// ORDER:");
    found(PROTOCOL, "//! A.\nlet flag = M::ld_flag_acquire(m, peer, row);\n", 2, "// ORDER:");
    clean(PROTOCOL, "//! A.\n// ORDER: pairs with the poll.\nm.st_flag_release(Rank(0), row, epoch);\n");
    let far = format!("//! A.\n// ORDER: pairs with the poll.\n{}m.st_flag_release(r, row, epoch);\n", "\n".repeat(6));
    found(PROTOCOL, &far, 9, "// ORDER:");
    clean(PROTOCOL, &far.replacen("\n\n", "\n", 1));
    // The trait that declares them calls none; other crates argue elsewhere.
    clean(PROTOCOL, "//! A.\nfn st_flag_release(&self, listener: Rank);\n");
    clean("host/src/cpu/machine.rs", &format!("//! A.\n{call}"));
}

#[test]
fn a_match_on_a_choice_names_all() {
    let text = |arm: &str| {
        format!("//! A.\nfn a() {{\n    match a {{\n        Dtype::F32 => {{ b(); }}\n        {arm}\n    }}\n}}\n")
    };
    found("host/src/plan.rs", &text("_ => 2,"), 5, "wildcard in a match on Dtype");
    found("host/src/plan.rs", &text("_ if b => 2,"), 5, "wildcard");
    found(PROTOCOL, &text("_ => 2,").replace("Dtype::F32", "(Algorithm::OneShot, 1)"), 5, "Algorithm");
    clean("host/src/plan.rs", &text("Dtype::F16 | Dtype::Bf16 => 2,"));
    // To make one from something else, a wildcard is needed.
    clean("host/src/plan.rs", &text("_ => Some(Dtype::F16),").replace("Dtype::F32 => { b(); }", "0 => Dtype::F32,"));
    // The wildcard of a match inside an arm is not this match's.
    clean("host/src/plan.rs", &text("Dtype::F16 => match b { 0 => 1, _ => 2 },"));
    clean("tests/src/a.rs", &text("_ => 2,"));
}

#[test]
fn nothing_is_left_over() {
    found("host/src/a.rs", "//! A.\n// TODO: later\n", 2, "left over");
    found("host/src/a.rs", "//! A.\n/* FIXME */\n", 2, "left over");
    found("host/src/a.rs", "//! A.\n/// XXX\nfn a() {}\n", 2, "left over");
    found("host/src/a.rs", "//! A.\nfn a() {\n    todo!()\n}\n", 3, "left over");
    clean("host/src/a.rs", "//! A.\nconst MARKS: &str = \"TODO\"; // XXXL\n");
}

#[test]
fn literals_do_not_hide_code() {
    let hidden = "//! A.\nconst A: char = '\"';\nconst B: &str = r#\"a \" // b\"#;\nfn a<'a>(b: &'a str) { todo!() }\n";
    found("host/src/a.rs", hidden, 4, "left over");
    found("host/src/a.rs", "//! A.\nconst A: &str = \"\\\" // \\\\\"; fn a() { todo!() }\n", 2, "left over");
    found("host/src/a.rs", "//! A.\nconst A: (char, char) = ('\\'', '{'); fn a() { todo!() }\n", 2, "left over");
}
