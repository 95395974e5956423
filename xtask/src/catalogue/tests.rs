//! What does not go together must be found; what does gives the page.

use super::{Made, make};

const LIST: &str = "# Rows.\n\nB01 | order | a flag is lost\nB17 | lengths | odd sizes are wrong\nB99 | setup | it needs a tool | There is none.\n";
const PROPERTIES: &str = "\
pub const OF_PROCESSES: [&str; 1] = [\n    \"b17_odd\",\n];\npub const OF_GPU_PROCESSES: [&str; 1] = [\"b01_late\"];\n";
const LATE: &str = "pub(super) fn b01_late(bench: &Bench) -> Result<Outcome> {\n    if bench.on_cpu() {\n        \
                    return Ok(Outcome::Skipped(\"no\".into()));\n    }\n}\n";
const ODD: &str = "pub(super) fn b17_odd(bench: &Bench) -> Result<Outcome> {\n    Ok(Outcome::Holds)\n}\n";

fn with(list: &str, more: &[(&str, &str)]) -> Made {
    let files = [
        ("tests/src/properties/late.rs", LATE),
        ("tests/src/properties/mod.rs", PROPERTIES),
        ("tests/src/properties/odd.rs", ODD),
    ];
    make(list, &[&files, more].concat())
}

/// That the only thing wrong has this in it.
#[track_caller]
fn wrong(list: &str, more: &[(&str, &str)], what: &str) {
    let made = with(list, more);
    assert!(made.wrong.len() == 1 && made.wrong[0].contains(what), "{:?}", made.wrong);
}

#[test]
fn a_list_and_its_tests_give_the_page() {
    let test = "#[test]\nfn b01_b17_both() {\n    let a = \"fn b55_no() {\"; // fn b56_no()\n}\n";
    let script = "class Tests:\n    def test_b17_script(self):\n        pass\n";
    let made = with(LIST, &[("tests/tests/plan.rs", test), ("host/benches/tests/a.py", script)]);
    assert_eq!(made.wrong, [""; 0]);
    assert_eq!(made.counts, "3 rows: 2 with 4 tests, 1 that cannot arise, 0 with something to come");
    for row in [
        "| B01 | order | a flag is lost | [`b01_late`](src/properties/late.rs): GPUs, GPU processes<br>[`b01_b17_both`](tests/plan.rs): pure functions |",
        "| B17 | lengths | odd sizes are wrong | [`b17_odd`](src/properties/odd.rs): CPU threads, CPU processes, GPUs, GPU processes<br>[`b01_b17_both`](tests/plan.rs): pure functions<br>[`test_b17_script`](../host/benches/tests/a.py): scripts |",
        "| B99 | setup | it needs a tool | There is none. |",
    ] {
        assert!(made.page.contains(&format!("{row}\n")), "{}", made.page);
    }
}

#[test]
fn a_row_has_a_test_or_a_reason_and_not_both() {
    wrong(&format!("{LIST}B02 | order | another flag is lost\n"), &[], "B02 has no test, and no reason");
    let test = ("host/src/a.rs", "mod tests {\n    #[test]\n    #[ignore]\n    fn b99_tool() {}\n}\n");
    wrong(LIST, &[test], "B99 cannot arise, it says, and b99_tool in host/src/a.rs tests it");
}

#[test]
fn an_id_in_a_name_is_a_rows_and_the_name_a_tests() {
    wrong(LIST, &[("host/src/a.rs", "#[test]\nfn b01_b18_c() {}\n")], "b01_b18_c is for B18, which is no row");
    // With a digit too few it is no id.
    let made = with(LIST, &[("host/src/a.rs", "#[test]\nfn b1_c() {}\nfn b_17() {}\nfn bf16_sum() {}\n")]);
    assert_eq!(made.wrong, [""; 0]);
    wrong(LIST, &[("host/src/a.rs", "#[inline]\nfn b01_c() {}\n")], "host/src/a.rs:2: b01_c has an id in its name");
    wrong(LIST, &[("tests/src/properties/a.rs", "fn b01_c(bench: &Bench) -> Result<()> {}\n")], "is no test");
    wrong(LIST, &[("host/a.py", "def b01_c():\n")], "is no test");
}

#[test]
fn what_is_to_come_is_said_and_passes() {
    let list =
        LIST.replace("is lost", "is lost | PENDING: ranks of several processes") + "B02 | order | x | PENDING: all\n";
    let made = with(&list, &[]);
    assert_eq!(made.wrong, [""; 0]);
    assert_eq!(made.pending, ["B01 PENDING: ranks of several processes", "B02 PENDING: all"]);
    assert!(made.counts.ends_with("2 with something to come"), "{}", made.counts);
}

#[test]
fn a_line_of_the_list_has_its_parts() {
    let list = |line: &str| format!("{LIST}{line}\n");
    wrong(&list("B02 | order"), &[], "tests/catalogue.txt:6: a line is");
    wrong(&list("B02 | order | a | b | c"), &[], "a line is");
    wrong(&list("B02 | order | a |"), &[], "is empty");
    wrong(&list("B17 | order | a"), &[], "B17 is there already");
    for id in ["17", "B5", "B017", "Bx"] {
        wrong(&list(&format!("{id} | order | a | because")), &[], "is no id");
    }
}

#[test]
fn where_a_test_is_says_what_it_runs_on() {
    let property = |condition: &str| {
        let text = format!("fn b01_p() {{\n if {condition} {{\n return Ok(Outcome::Skipped(\n");
        super::runs::of_property("b17_odd", &text, PROPERTIES)
    };
    assert_eq!(property("bench.on_cpu() && !bench.machine.in_processes()"), "CPU processes, GPUs, GPU processes");
    assert_eq!(property("!bench.machine.in_processes()"), "CPU processes, GPU processes");
    assert_eq!(property("bench.machine.in_processes() && !bench.on_cpu()"), "CPU threads, CPU processes, GPUs");
    assert_eq!(property("most < 2"), "CPU threads, CPU processes, GPUs, GPU processes");
    let devices = |filter: &str| {
        let body = format!(" let Some(it) = bench.machine.devices().filter(|_| {filter}) else {{\n");
        super::runs::of_property("b01_late", &body, PROPERTIES)
    };
    assert_eq!(devices("bench.machine.in_processes()"), "GPU processes");
    assert_eq!(
        super::runs::of_property(
            "b02_x",
            " let Some(it) = bench.machine.devices().filter(|_| !bench.machine.in_processes()) else {",
            PROPERTIES
        ),
        "GPUs"
    );
    for (path, text, what) in [
        ("tests/model/tests/a.rs", "", "model checker"),
        ("xtask/src/audit/tests.rs", "", "PTX text"),
        ("host/src/processes/a.rs", "", "the library's parts"),
        ("tests/tests/a.rs", "mod meet;", "CPU processes"),
        ("tests/tests/a.rs", "Communicator::cpu(2)", "CPU threads"),
        ("tests/tests/a.rs", "", "pure functions"),
    ] {
        assert_eq!(super::runs::of_test(path, text), what);
    }
}
