//! `docs/axioms.md` is what the checker says.

use allfold_axioms::report;

#[test]
fn the_page_is_up_to_date() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/axioms.md");
    let found = std::fs::read_to_string(file).unwrap_or_default();
    assert!(found == report::page(), "write it again: cargo run -p allfold-axioms -- --markdown > docs/axioms.md");
}

#[test]
fn a_case_can_be_explained() {
    let lines = report::explain("End barrier: volatile / volatile");
    assert!(lines.iter().any(|line| line.contains("reads gpu 1 kernel 2")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("race: ")), "{lines:#?}");
}
