//! A bad kernel of each kind must be found, with its name and line; a good one must pass.
//!
//! Each plant is the good module with one line changed.

use super::ptxas::{ARCHITECTURES, Ptxas, SKIP, Usage};
use super::table::{self, Usages};
use super::{Failure, rules};

const GOOD: &str = include_str!("planted/good.ptx");
const KERNEL: &str = "f32__one_shot_w2";

/// The good module with `from`, which must be there once, replaced; and the line where that is.
fn plant(from: &str, to: &str) -> (String, usize) {
    assert_eq!(GOOD.matches(from).count(), 1, "{from}");
    let before = GOOD.split(from).next().unwrap();
    (GOOD.replace(from, to), before.lines().count().max(1) + usize::from(before.ends_with('\n')))
}

/// That the rules find exactly one thing in the good module with `from` replaced: at that line, in `kernel`.
#[track_caller]
fn found(from: &str, to: &str, kernel: &str, what: &str) {
    let (text, line) = plant(from, to);
    let failures = rules::check("sm_90/f32.ptx", &text);
    let [Failure { file, line: at, kernel: name, what: said }] = failures.as_slice() else {
        panic!("{from} -> {to}: {failures:?}");
    };
    assert_eq!((file.as_str(), *at, name.as_str()), ("sm_90/f32.ptx", line, kernel), "{from} -> {to}");
    assert!(said.contains(what), "{from} -> {to}: {said}");
}

#[test]
fn the_good_module_passes() {
    assert_eq!(rules::check("sm_90/f32.ptx", GOOD), []);
}

#[test]
fn a_failure_names_file_line_and_kernel() {
    let (text, line) = plant("bar.sync \t0;", "call.uni panic, ();");
    let failures = rules::check("sm_90/f32.ptx", &text);
    assert!(failures[0].to_string().starts_with(&format!("sm_90/f32.ptx:{line}: f32__one_shot_w2: `call`")));
}

#[test]
fn b02_b04_b130_b137_a_flag_access_that_is_not_what_its_name_says() {
    let must = "must be";
    found("st.volatile.global.u64 [", "st.relaxed.sys.global.u64 [", KERNEL, must);
    found("ld.volatile.global.u64 %", "ld.global.u64 %", KERNEL, must);
    // The scope: what the model checker cannot see.
    found("st.release.sys.global.u64 [", "st.release.gpu.global.u64 [", KERNEL, must);
    found("ld.acquire.sys.global.u64 %", "ld.acquire.gpu.global.u64 %", KERNEL, must);
    // The order.
    found("st.release.sys.global.u64 [", "st.relaxed.sys.global.u64 [", KERNEL, must);
    found("ld.acquire.sys.global.u64 %", "ld.volatile.global.u64 %", KERNEL, must);
    // The width, and the state space.
    found("ld.acquire.sys.global.u64 %", "ld.acquire.sys.global.u32 %", KERNEL, must);
    found("st.release.sys.global.u64 [", "st.release.sys.u64 [", KERNEL, must);
    // A name on what is no access at all.
    found("mov.b64 \t%rd8, 0;", "mov.b64 \t%rd8, 0; // st_flag_release", KERNEL, must);
}

#[test]
fn b04_b130_a_fence_that_is_weaker_or_dearer_and_landing_data_of_another_scope() {
    for fence in ["fence.acq_rel.gpu;", "fence.sc.sys;", "membar.sys;"] {
        found("bar.sync \t0;", fence, KERNEL, "a fence is");
    }
    found(
        "bar.sync \t0;",
        "st.relaxed.gpu.global.v4.u32 [%rd1], {%r1, %r1, %r1, %r1}; // st_landing",
        KERNEL,
        "must be",
    );
    found("bar.sync \t0;", "st.global.v4.u32 [%rd1], {%r1, %r1, %r1, %r1}; // st_landing", KERNEL, "must be");
    // What all ranks must see, told to one GPU.
    let stop = "st.relaxed.gpu.global.u64 [%rd1], %rd2; // st_stop";
    found("bar.sync \t0;", stop, KERNEL, "must be");
    found("bar.sync \t0;", "ld.global.v2.u64 {%rd1, %rd2}, [%rd5]; // ld_call", KERNEL, "must be");
    // A flag that may land apart from its data.
    let words = "st.relaxed.sys.global.v4.u32 [%rd1], {%r1, %r1, %r1, %r1}; // st_landing_pairs";
    found("bar.sync \t0;", words, KERNEL, "must be");
}

#[test]
fn b134_an_access_without_a_name() {
    let unnamed = "names no operation";
    found("[%rd5+32], %rd6; // st_flag_release", "[%rd5+32], %rd6;", KERNEL, unnamed);
    found("[%rd5]; // ld_word", "[%rd5]; // a word", KERNEL, unnamed);
    found("bar.sync \t0;", "ld.u32 %r20, [%rd1];", KERNEL, unnamed);
    found("bar.sync \t0;", "@%p1 atom.global.add.u32 %r20, [%rd1], 1;", KERNEL, unnamed);
    found("bar.sync \t0;", "st.shared.u32 [%r1], %r2;", KERNEL, unnamed);
    // Two on one line share one name, which cannot be right for both.
    found(
        "ld.global.u64 %rd6, [%rd5];",
        "st.u32 [%rd1], %r20; ld.global.u64 %rd6, [%rd5];",
        KERNEL,
        "ld_word is `st.u32`",
    );
}

#[test]
fn local_memory() {
    found(".reg .b32 \t%r<40>;", ".local .align 8 .b8 \t__local_depot0[64];", KERNEL, "`.local`");
    found("bar.sync \t0;", "st.local.u32 [%r1], %r2;", KERNEL, "`st.local.u32`");
}

#[test]
fn a_call_and_what_is_elsewhere() {
    found("bar.sync \t0;", "call.uni (retval0), f, (param0);", KERNEL, "`call`");
    found("bar.sync \t0;", "call.uni\n\tf,\n\t(\n\tparam0\n\t);", KERNEL, "`call`");
    found(".address_size 64", ".extern .func panic()", "(module)", "`.extern`");
}

#[test]
fn a_cached_read() {
    found("ld.global.v4.u32 {%r5", "ld.global.nc.v4.u32 {%r5", KERNEL, "cached read");
}

#[test]
fn a_narrow_access_in_a_main_loop() {
    let narrow = "less than 16 bytes";
    found("add.s64 \t%rd8, %rd8, 16;", "ld.global.u16 %rs1, [%rd1]; // ld_elem", KERNEL, narrow);
    found("add.s64 \t%rd8, %rd8, 16;", "st.global.u64 [%rd1], %rd8; // st_word", KERNEL, narrow);
    // Also where the loop is longer than it looks: after the narrow access, a branch goes back into it,
    let tail = "ld.global.u32 %r13, [%rd1]; // ld_elem\n\tst.global.u32 [%rd4], %r13; // st_elem";
    let back = "ld.global.u32 %r13, [%rd1]; // ld_elem\n\t@%p3 bra $L__BB0_2;";
    found(tail, back, KERNEL, narrow);
    // or one through a table of targets.
    let table = "$L_t: .branchtargets\n\t$L__BB0_2,\n\t$L__BB0_3;\n\tbrx.idx %r1, $L_t;";
    found(tail, &format!("ld.global.u32 %r13, [%rd1]; // ld_elem\n{table}"), KERNEL, narrow);
}

#[test]
fn a_tail_in_a_loop_of_its_own_inside_one_that_moves_packs() {
    // Of the pack that is not whole.
    let nested = "$L_n: st.global.u32 [%rd4], %r13; // st_elem\n@%p1 bra $L_n;";
    let (text, _) = plant("add.s64 \t%rd8, %rd8, 16;", nested);
    assert_eq!(rules::check("sm_90/f32.ptx", &text), []);
    // All of the kernel again and again: the innermost loop of its tail is one that moves packs.
    let (text, _) = plant("st.global.u64 [%rd5], %rd6; // st_word", "@%p4 bra $L__BB0_1;");
    let failures = rules::check("sm_90/f32.ptx", &text);
    assert_eq!(failures.len(), 2, "a load and a store: {failures:?}");
    assert!(failures.iter().all(|failure| failure.what.contains("less than 16 bytes")), "{failures:?}");
}

#[test]
fn an_all_reduce_without_a_pack_loop() {
    let (text, _) = plant("@%p3 bra \t$L__BB0_2;", "");
    let failures = rules::check("sm_90/f32.ptx", &text);
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert_eq!((failures[0].line, failures[0].kernel.as_str()), (4, KERNEL));
    assert!(failures[0].what.contains("without a loop that moves packs"));
}

#[test]
fn a_reduction_in_memory() {
    found("bar.sync \t0;", "red.global.add.u64 [%rd5], %rd6; // red_word", KERNEL, "outside a verify kernel");
}

/// `ptxas`, or `None` after saying that the test is skipped.
fn assembler(test: &str) -> Option<Ptxas> {
    let ptxas = Ptxas::find().unwrap();
    if ptxas.is_none() {
        println!("SKIPPED: {test}, because {SKIP}=1");
    }
    ptxas
}

#[test]
fn b122_b131_ptxas_passes_the_good_module() {
    let Some(ptxas) = assembler("b122_b131_ptxas_passes_the_good_module") else { return };
    for sm in ARCHITECTURES.into_iter().filter(|sm| *sm >= 90) {
        let verdict = ptxas.assemble("sm_90/f32.ptx", GOOD, sm).unwrap();
        assert_eq!(verdict.failures, []);
        assert!(verdict.usage[KERNEL].registers >= 16 && verdict.usage[KERNEL].barriers == 1, "{:?}", verdict.usage);
    }
}

#[test]
fn ptxas_finds_an_assembly_error() {
    let Some(ptxas) = assembler("ptxas_finds_an_assembly_error") else { return };
    let (text, line) = plant("bar.sync \t0;", "bar.zync \t0;");
    let failures = ptxas.assemble("sm_90/f32.ptx", &text, 90).unwrap().failures;
    assert_eq!((failures[0].line, failures[0].kernel.as_str()), (line, KERNEL), "{failures:?}");
    assert!(failures[0].what.contains("Unknown modifier '.zync'"), "{failures:?}");
    // What is wrong with the whole file counts too.
    let failures = ptxas.assemble("sm_90/f32.ptx", &GOOD.replace(".version 7.8", ""), 90).unwrap().failures;
    assert!(!failures.is_empty());
}

#[test]
fn ptxas_finds_a_stack_frame() {
    let Some(ptxas) = assembler("ptxas_finds_a_stack_frame") else { return };
    // An array in local memory at a position that is known only at run time.
    let array = ".local .align 16 .b8 depot[64];\n mov.b64 %rd20, depot;\n cvta.local.u64 %rd20, %rd20;\n \
                 add.s64 %rd20, %rd20, %rd3;\n st.b64 [%rd20], %rd3;\n ld.b64 %rd6, [%rd20+8];";
    let (text, _) = plant("ld.global.u64 %rd6, [%rd5]; // ld_word", array);
    let failures = ptxas.assemble("sm_90/f32.ptx", &text, 90).unwrap().failures;
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert_eq!((failures[0].line, failures[0].kernel.as_str()), (4, KERNEL));
    assert!(failures[0].what.contains("64 bytes stack frame"), "{failures:?}");
}

#[test]
fn ptxas_finds_a_spill() {
    let Some(ptxas) = assembler("ptxas_finds_a_spill") else { return };
    // Sixty values live at once, and registers for a third of them.
    let lines = |format: &dyn Fn(u32) -> String| (0..60).map(format).collect::<String>();
    let loads = lines(&|n| format!("ld.volatile.global.u32 %r{}, [%rd1+{}];\n", 40 + n, 4 * n));
    let stores = lines(&|n| format!("st.volatile.global.u32 [%rd2+{}], %r{};\n", 4 * n, 99 - n));
    let (text, _) = plant("bar.sync \t0;", &(loads + &stores));
    let text = text.replace("%r<40>", "%r<100>").replacen(")\n{", ")\n.maxnreg 24\n{", 1);
    let failures = ptxas.assemble("sm_90/f32.ptx", &text, 90).unwrap().failures;
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert_eq!((failures[0].line, failures[0].kernel.as_str()), (4, KERNEL));
    assert!(failures[0].what.contains("bytes spill stores") && !failures[0].what.contains(" 0 bytes spill stores"));
}

#[test]
fn the_table_counts_and_tells_what_depends_on_ptxas() {
    let render = |registers, version| {
        let kernel = (KERNEL.to_string(), Usage { registers, barriers: 1 });
        let usages = Usages::from([(90, [kernel].into())]);
        table::render(&[("sm_90/f32.ptx".to_string(), GOOD.to_string(), usages)], Some(version))
    };
    let table = render(26, "13.5.37");
    let row = table.lines().find(|line| line.contains(KERNEL)).unwrap();
    // Flags 1 1 1 1, packs 2 1, no landing of either kind, elements 1 1, words 1 1 with no row between, no cursor, nothing of calls and stops, no reduction, one barrier, four branches; then of ptxas.
    let counts = "| `f32__one_shot_w2` | sm_90/f32.ptx | 1 | 1 | 1 | 1 | 2 | 1 | 0 | 0 | 0 | 0 | 1 | 1 | 1 | 0 | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 1 | 4 | 35 | 1 | - | 26 | - |";
    assert_eq!(row, counts);
    assert_eq!(table::ptxas_in(&table), Some("13.5.37"));
    let other = render(28, "14.0.1");
    assert_ne!(table, other);
    assert_eq!(table::without_ptxas(&table), table::without_ptxas(&other));
    assert!(table::without_ptxas(&table).contains("| 4 | 35"));
}
