//! Tests of `report.rs`.

use super::*;

fn report(wrong: u64) -> Report {
    let row = Row {
        bytes: 268_435_456,
        count: 134_217_728,
        dtype: "bf16",
        op: "sum",
        algorithm: "two-shot",
        blocks: 128,
        threads: 512,
        chain: Some(5),
        samples: 20,
        median_us: 12_789.123,
        p99_us: 13_001.5,
        algbw_gbps: 340.232,
        busbw_gbps: 595.406,
        wrong,
        nccl_us: None,
        ratio: None,
        nccl_wrong: None,
    };
    Report {
        device: "8 x NVIDIA \"H200\"".into(),
        ranks: 8,
        devices: (0..8).collect(),
        backend: "cuda",
        dtype: "bf16".into(),
        protocol: "allfold",
        in_words: "protocol allfold".into(),
        input: "registered",
        in_place: false,
        graph: true,
        chain: None,
        seed: 7,
        version: "0.1.0",
        date: "2026-11-29T00:00:00Z".into(),
        nccl: None,
        tuning: None,
        rows: vec![row.clone(), Row { bytes: 0, count: 0, chain: None, wrong: 0, ..row }],
    }
}

/// The same with NCCL beside it, 1.25 times as slow, and `wrong` of its elements wrong in the first size.
fn beside_nccl(wrong: u64) -> Report {
    let mut report = report(0);
    let library = "/opt/nvidia/nccl/lib/libnccl.so.2".into();
    report.nccl = Some(Beside { version: "2.27.3".into(), library, nvls_enable: Some("0".into()) });
    // Rank 1 is the slower one, and its median counts.
    let slow = 12_789.123 * 1.25;
    let samples = vec![vec![1.0, 2.0, 3.0], vec![slow, slow, 90_000.0]];
    let mut wrong = [wrong, 0].into_iter();
    for row in &mut report.rows {
        let wrong = wrong.next().unwrap_or(0);
        *row = row.clone().beside(&Measured { plan: (), samples: samples.clone(), wrong });
    }
    report
}

#[test]
fn json_has_what_was_run_and_the_rows() {
    let text = report(0).json().expect("serialises");
    let json: serde_json::Value = serde_json::from_str(&text).expect("is JSON");
    for key in [
        "device", "ranks", "backend", "dtype", "protocol", "input", "graph", "chain", "seed", "version", "date", "rows",
    ] {
        assert!(json.get(key).is_some(), "{key}");
    }
    let row = &json["rows"][0];
    for (key, value) in
        [("bytes", 268_435_456_u64), ("count", 134_217_728), ("wrong", 0), ("chain", 5), ("samples", 20)]
    {
        assert_eq!(row[key].as_u64(), Some(value), "{key}");
    }
    assert_eq!(row["type"], "bf16");
    assert_eq!(row["median_us"].as_f64(), Some(12_789.123));
    assert!(json["rows"][1]["chain"].is_null());
    assert!(json["nccl"].is_null() && row["nccl_us"].is_null() && row["ratio"].is_null());
}

#[test]
fn csv_has_a_field_for_each_column() {
    let text = report(3).csv();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    let columns = |line: &str| line.split(',').count();
    assert!(lines.iter().all(|line| columns(line) == columns(lines[0])), "{text}");
    assert!(lines[1].starts_with("\"8 x NVIDIA 'H200'\",cuda,8,"), "{text}");
    assert!(lines[0].ends_with(",wrong,nccl,nccl_us,ratio,nccl_wrong"), "{text}");
    assert!(lines[1].ends_with(",595.406,3,,,,"), "{text}");
}

#[test]
fn the_table_fits_100_columns_and_the_verdict_says_what_is_wrong() {
    let text = report(0).text();
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.contains("Every element right on every rank, in 2 sizes."), "{text}");
    let text = report(3).text();
    assert!(text.contains("WRONG: 3 elements, in 1 of 2 sizes."), "{text}");
    assert!(!text.contains("nccl") && !text.contains("ratio"), "{text}");
    assert!(report(0).all_right() && !report(3).all_right());
}

#[test]
fn nccl_has_its_columns_in_every_form() {
    let json: serde_json::Value = serde_json::from_str(&beside_nccl(0).json().expect("serialises")).expect("is JSON");
    assert_eq!((&json["nccl"]["version"], &json["nccl"]["nvls_enable"]), (&"2.27.3".into(), &"0".into()));
    let row = &json["rows"][0];
    assert_eq!((row["nccl_us"].as_f64(), row["ratio"].as_f64()), (Some(15_986.404), Some(0.8)));
    assert_eq!(row["nccl_wrong"].as_u64(), Some(0));

    let csv = beside_nccl(2).csv();
    let lines: Vec<_> = csv.lines().collect();
    assert!(lines.iter().all(|line| line.split(',').count() == lines[0].split(',').count()), "{csv}");
    assert!(lines[1].ends_with(",0,2.27.3,15986.404,0.8,2"), "{csv}");

    let text = beside_nccl(0).text();
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    for part in ["beside NCCL 2.27.3, NCCL_NVLS_ENABLE 0; ratio: our time over NCCL's", "15986.40", "0.80"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(text.ends_with("NCCL: Every element right on every rank, in 2 sizes.\n"), "{text}");
}

#[test]
fn a_wrong_sum_of_nccl_is_said_and_is_not_ours() {
    let report = beside_nccl(2);
    assert!(!report.all_right());
    let text = report.text();
    assert!(text.contains("\nEvery element right on every rank, in 2 sizes.\n"), "{text}");
    assert!(text.ends_with("\nNCCL: WRONG: 2 elements, in 1 of 2 sizes.\n"), "{text}");
}

#[test]
fn a_time_of_zero_has_no_ratio() {
    let [row, ..] = &report(0).rows[..] else { panic!("it has rows") };
    let row = row.clone().beside(&Measured { plan: (), samples: vec![vec![0.0]], wrong: 0 });
    assert_eq!((row.nccl_us, row.ratio), (Some(0.0), None));
}

#[test]
fn a_tuning_table_is_named() {
    let report = Report { tuning: Some("allfold tune, 2026-11-29".into()), ..report(0) };
    assert!(report.text().contains("\ntuned by allfold tune, 2026-11-29\n"), "{}", report.text());
    assert!(report.json().expect("json").contains("\"tuning\": \"allfold tune, 2026-11-29\""));
}
