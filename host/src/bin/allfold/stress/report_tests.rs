//! Tests of `report.rs`.

use allfold::{Dtype, Epoch, FirstWrong, stamp_sum};

use super::*;

fn row(sound: bool, wrong: u64, gave_up: bool) -> Row {
    let bits = half::bf16::from_f32(stamp_sum(2, 5, Epoch(8)) as f32).to_bits().into();
    let story = (wrong > 0).then(|| Story::new(2, 1, Dtype::Bf16, FirstWrong { elem: 5, bits, epoch: 9 }));
    Row {
        protocol: "custom protocol",
        algorithm: "one-shot",
        input: "registered",
        start: "multi-gpu",
        order: "release-acquire",
        end: "barrier-release-acquire",
        verdict: if sound { "sound" } else { "not known" }.to_owned(),
        sound,
        calls: 50_000,
        elements: 100_000,
        wrong,
        rate: wrong as f64 / 100_000.0,
        seconds: 0.5,
        gave_up: gave_up.then(|| "rank 0 block 0 gave up waiting for rank 1".to_owned()),
        story: story.as_ref().map(Story::text),
        first_wrong: story,
        named: false,
    }
}

fn report(rows: Vec<Row>) -> Report {
    Report {
        device: "2 x NVIDIA H200".into(),
        ranks: 2,
        devices: vec![0, 1],
        backend: "cuda",
        bytes: 16_384,
        dtype: "bf16",
        blocks: 8,
        threads: 64,
        delay_ns: 2000,
        delay_one_in: 64,
        traffic: false,
        version: "0.1.0",
        date: "2026-11-29T00:00:00Z".into(),
        seconds: 1.25,
        rows,
    }
}

#[test]
fn only_a_sound_cell_can_be_refuted() {
    assert_eq!(report(vec![row(true, 0, false), row(false, 3, false), row(false, 0, true)]).refuted(), 0);
    assert_eq!(report(vec![row(true, 1, false), row(true, 0, true), row(true, 0, false)]).refuted(), 2);
}

#[test]
fn the_text_has_each_story_and_the_sum_of_all() {
    let text = report(vec![row(true, 0, false), row(false, 3, false), row(false, 9, true)]).text();
    let story =
        "custom protocol one-shot registered multi-gpu release-acquire barrier-release-acquire: rank 1, element 5";
    assert!(text.contains(story), "{text}");
    assert!(text.contains("gave up: rank 0 block 0"), "{text}");
    assert!(
        text.ends_with("Every element right in the 1 cell known to be sound; of 2 others 2 went wrong. 1.2 s.\n"),
        "{text}"
    );
    assert!(report(vec![row(true, 1, false)]).text().contains("WRONG in 1 of the 1 cell known to be sound."));
}

#[test]
fn markdown_has_a_field_for_each_column_and_the_protocol_only_by_name() {
    for named in [false, true] {
        let rows = [(true, 0, false), (false, 3, false), (false, 9, true)];
        let rows = rows.map(|(sound, wrong, gave_up)| Row { named, ..row(sound, wrong, gave_up) }).to_vec();
        let text = report(rows).markdown();
        let lines: Vec<_> = text.lines().skip(2).collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines.iter().all(|line| line.matches('|').count() == if named { 10 } else { 9 }), "{text}");
        assert_eq!(lines[0].starts_with("| protocol |"), named);
        assert!(lines[3].ends_with("| not known | 50000 | 3 |"), "{text}");
        assert!(lines[4].ends_with("| 50000 | gave up |"), "{text}");
        assert!(lines[1].ends_with("| ---: | ---: |"), "{text}");
    }
}

#[test]
fn json_has_what_was_run_and_the_rows() {
    let text = report(vec![row(false, 3, false)]).json().expect("serialises");
    let json: serde_json::Value = serde_json::from_str(&text).expect("is JSON");
    assert_eq!((json["delay_ns"].as_u64(), json["bytes"].as_u64()), (Some(2000), Some(16_384)));
    let row = &json["rows"][0];
    assert_eq!((row["wrong"].as_u64(), row["calls"].as_u64()), (Some(3), Some(50_000)));
    assert_eq!(row["first_wrong"]["call"].as_u64(), Some(9));
    assert!(row["story"].as_str().is_some_and(|story| story.contains("call 9")) && row["gave_up"].is_null());
}
