//! `docs/barriers.md` says what the last whole run of the model said, and what its own words now are.

use std::path::Path;

use allfold_model::page::{Record, render};

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_page_is_made_of_the_record() {
    let record = Record::read(&read("record.txt"));
    let page = render(&record).unwrap();
    let committed = read("../../docs/barriers.md");
    let differs = page.lines().zip(committed.lines()).find(|(made, committed)| made != committed);
    assert_eq!(differs, None, "run `cargo xtask model --text`");
    assert_eq!(page, committed);
}

/// Every link within the page leads somewhere.
#[test]
fn every_link_within_the_page_has_its_heading() {
    let page = read("../../docs/barriers.md");
    let anchor = |heading: &str| {
        let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    };
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let anchors: Vec<_> = headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect();
    let links: Vec<_> = page.split("](#").skip(1).map(|rest| rest.split(')').next().unwrap_or_default()).collect();
    assert!(links.len() > 50, "{} links", links.len());
    for link in links {
        assert!(anchors.iter().any(|anchor| anchor == link), "no heading for #{link}");
    }
}
