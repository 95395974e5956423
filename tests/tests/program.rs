//! The program `suite`: its lines, its exit code, and eight ranks on two cores.

use std::process::{Command, Output};

fn suite(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_suite")).args(arguments).output().expect("the program starts")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn it_names_every_property() {
    let said = text(&suite(&["--list"]));
    let names: Vec<_> = said.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, allfold_tests::properties::ALL.iter().map(|property| property.name).collect::<Vec<_>>());
}

#[test]
fn it_reports_what_passed_and_what_was_skipped() {
    let output = suite(&["--backend", "cpu", "--quick", "--filter", "rank"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let lines: Vec<_> = said.lines().collect();
    assert!(lines.iter().any(|line| line.starts_with("b107_b110_rank_order") && line.contains(" ok (")), "{said}");
    assert!(
        lines.iter().any(|line| line.starts_with("b11_b13_b37_late_rank") && line.contains(" SKIPPED a call starts")),
        "{said}"
    );
    assert_eq!(lines.last(), Some(&"1 passed, 0 failed, 2 skipped"));
}

#[test]
fn it_runs_as_many_stress_calls_as_asked_for() {
    let said = text(&suite(&["--backend", "cpu", "--filter", "stress", "--stress", "1234"]));
    assert!(said.contains("ok (1234 checked)"), "{said}");
}

#[test]
fn it_lets_ranks_fail_and_says_what_came_of_it() {
    let of = |filter: &str, limit: &str| {
        suite(&["--backend", "cpu", "--faults", "threads,gpus", "--filter", filter, "--limit", limit])
    };
    let output = of("fault: Late, phase: First", "60");
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("SKIPPED: the CPU has no driver"), "{said}");
    assert!(said.lines().any(|line| line.starts_with("faults: 15 cells, 0 failed; ")), "{said}");
    // Nothing is no success, and what takes too long is ended.
    assert_eq!(of("no such fault", "60").status.code(), Some(1));
    let output = of("fault: Absent", "1");
    let said = text(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("STUCK after 1s, for ") && said.contains("in: absent: Cell { fault: Absent"), "{said}");
}

#[test]
fn it_refuses_what_it_cannot_do() {
    for arguments in [
        &["--backend", "cpu", "--filter", "no such property"][..],
        &["--backend", "cpu", "--devices", "0,1"],
        &["--backend", "cuda", "--devices", "0,0,0,0,0,0,0,0,0"],
        &["--backend", "tpu"],
    ] {
        let output = suite(arguments);
        assert!(!output.status.success() && !output.stderr.is_empty(), "{arguments:?}: {}", text(&output));
    }
}

#[test]
fn eight_ranks_finish_on_two_cores_and_on_one() {
    if Command::new("taskset").arg("--version").output().is_err() {
        println!("SKIPPED: no taskset to hold the program to some cores");
        return;
    }
    for cores in ["0", "0,1"] {
        let held = Command::new("taskset")
            .args(["--cpu-list", cores, env!("CARGO_BIN_EXE_suite"), "--backend", "cpu", "--quick"])
            .args(["--filter", "two_communicators"])
            .output()
            .expect("taskset starts");
        if String::from_utf8_lossy(&held.stderr).contains("failed to set") {
            println!("SKIPPED: this process may not run on cores {cores}");
            continue;
        }
        assert!(held.status.success(), "cores {cores}: {}", text(&held));
    }
}
