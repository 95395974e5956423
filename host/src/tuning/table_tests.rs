//! Tables: written and read back, and each way to be wrong.

use super::*;

const TEXT: &str = "\
# allfold tuning 1
# device NVIDIA H200
# date 2026-11-29T18:38:00Z
# command allfold tune --devices 0,1
# ranks elem_bytes declared up_to_bytes algorithm blocks threads
2 2 registered     262144 one_shot_push 132  128
2 2 registered        max exchange      132 1024
2 2 in_place          max one_pass      132  512
2 4 staged            max two_shot       66 1024
8 2 registered        max two_shot_push 132  256
";

fn table() -> Table {
    Table::read(TEXT).expect("right")
}

#[test]
fn what_is_written_is_read_again() {
    let table = table();
    assert_eq!(table.to_string(), TEXT);
    assert_eq!(Table::read(&table.to_string()).as_ref(), Ok(&table));
    assert_eq!(Table::new(table.origin(), table.entries()).as_ref(), Ok(&table));
    assert_eq!(table.origin().command, "allfold tune --devices 0,1");
    assert_eq!(table.entries().len(), 5);
    // People may add comments and blank lines.
    assert_eq!(Table::read(&TEXT.replace("8 2", "\n# eight ranks\n  8 2")).as_ref(), Ok(&table));
}

#[test]
fn a_line_break_in_the_origin_adds_no_row() {
    let origin = Origin { command: "one\n8 2 staged max two_shot 1 1\r\n".to_owned(), ..table().origin().clone() };
    let written = Table::new(&origin, table().entries()).expect("right");
    assert_eq!(written.entries(), table().entries());
    assert_eq!(written.origin().command, "one 8 2 staged max two_shot 1 1");
}

#[test]
fn a_row_is_for_what_was_measured_and_nothing_else() {
    let table = table();
    let row = |ranks, dtype, declared, bytes| table.row(ranks, dtype, declared, bytes, |_| true);
    let registered = row(2, Dtype::Bf16, Declared::Registered, 262_144).expect("a row");
    assert_eq!((registered.algorithm, registered.threads), (Algorithm::OneShotPush, 128));
    assert_eq!(registered.source, Source::Table);
    let larger = row(2, Dtype::F16, Declared::Registered, 262_145).expect("a row");
    assert_eq!(larger.algorithm, Algorithm::Exchange);
    assert_eq!(row(2, Dtype::Bf16, Declared::Staged, 16), None, "not measured for elements of two bytes");
    assert_eq!(row(2, Dtype::F32, Declared::Registered, 16), None);
    for ranks in [1, 3, 4, 7] {
        assert_eq!(row(ranks, Dtype::Bf16, Declared::Registered, 16), None, "{ranks} ranks");
    }
    // A push of i32 moves a flag beside each word: it ends at a third of what f32 has.
    let entry = Entry { elem_bytes: 4, ..table.entries()[0] };
    let limits = [(Algorithm::OneShotPush, 3 << 10), (Algorithm::Exchange, u64::MAX)];
    let entries = limits.map(|(algorithm, up_to_bytes)| Entry { algorithm, up_to_bytes, ..entry });
    let of_words = Table::new(table.origin(), &entries).expect("right");
    let by = |dtype, bytes| of_words.row(entry.ranks, dtype, entry.declared, bytes, |_| true).map(|row| row.algorithm);
    assert_eq!(by(Dtype::F32, 3 << 10), Some(Algorithm::OneShotPush));
    assert_eq!(
        [1 << 10, (1 << 10) + 4].map(|bytes| by(Dtype::I32, bytes)),
        limits.map(|(algorithm, _)| Some(algorithm))
    );
    let without = table.row(2, Dtype::Bf16, Declared::Registered, 16, |a| a != Algorithm::OneShotPush);
    assert_eq!(without.map(|row| row.algorithm), Some(Algorithm::Exchange));
    let large = table.row(2, Dtype::Bf16, Declared::Registered, 1 << 30, |a| a != Algorithm::Exchange);
    assert_eq!(large, None, "a row with a limit is not for more than that");
    assert!(table.speaks_of(2, Dtype::F32) && !table.speaks_of(8, Dtype::F32) && !table.speaks_of(4, Dtype::Bf16));
}

#[test]
fn each_way_to_be_wrong_has_its_own_message() {
    let wrong = |from: &str, to: &str| {
        assert!(TEXT.contains(from), "{from}");
        Table::read(&TEXT.replacen(from, to, 1)).expect_err(to)
    };
    let text = |text: &str| text.to_owned();
    use TableError as E;
    let found = [
        (wrong("tuning 1", "tuning 2"), E::Head { got: text("# allfold tuning 2") }),
        (wrong("# device NVIDIA H200\n", ""), E::Missing { what: "device" }),
        (wrong("# date 2026-11-29T18:38:00Z", "# date"), E::Missing { what: "date" }),
        (wrong("# command", "# by"), E::Missing { what: "command" }),
        (wrong("132  128", "132"), E::Fields { line: 6, got: 6 }),
        (wrong("132  128", "132  128 4.2"), E::Fields { line: 6, got: 8 }),
        (wrong("262144", "256K"), E::Number { line: 6, column: "up_to_bytes", got: text("256K") }),
        (wrong(" 66 ", " -66 "), E::Number { line: 9, column: "blocks", got: text("-66") }),
        (wrong("8 2", "9 2"), E::Ranks { line: 10, ranks: 9 }),
        (wrong("2 2 registered     26", "1 2 registered     26"), E::Ranks { line: 6, ranks: 1 }),
        (wrong("2 4 ", "2 3 "), E::ElemBytes { line: 9, elem_bytes: 3 }),
        (wrong("staged", "copied"), E::Declared { line: 9, got: text("copied") }),
        (wrong("one_pass", "three_shot"), E::Algorithm { line: 8, got: text("three_shot") }),
        (
            wrong("one_pass", "one_shot"),
            E::NotFor { line: 8, algorithm: Algorithm::OneShot, declared: Declared::InPlace, ranks: 2 },
        ),
        (
            wrong("two_shot_push", "exchange"),
            E::NotFor { line: 10, algorithm: Algorithm::Exchange, declared: Declared::Registered, ranks: 8 },
        ),
        (wrong(" 66 1024", "257 1024"), E::Grid { line: 9, blocks: 257, threads: 1024 }),
        (wrong(" 66 1024", " 66 1025"), E::Grid { line: 9, blocks: 66, threads: 1025 }),
        (wrong(" 66 1024", "  0 1024"), E::Grid { line: 9, blocks: 0, threads: 1024 }),
        (wrong("262144", "max"), E::Order { line: 7 }),
        (wrong("2 4 staged ", "2 2 registered "), E::Order { line: 9 }),
        (wrong("8 2 registered        max", "8 2 registered 77"), E::NoLast { line: 10 }),
        (wrong("max exchange", "300000 exchange"), E::NoLast { line: 7 }),
        (Table::read(TEXT.split("2 2").next().unwrap_or("")).expect_err("no rows"), E::Empty),
        (Table::read("").expect_err("nothing"), E::Head { got: String::new() }),
    ];
    for (got, expected) in &found {
        assert_eq!(got, expected);
    }
    let mut messages: Vec<String> = found.iter().map(|(error, _)| error.to_string()).collect();
    messages.sort();
    messages.dedup();
    assert_eq!(messages.len(), found.len(), "{messages:#?}");
}

#[test]
fn a_fingerprint_differs_when_any_field_does() {
    let table = table();
    let mut tables = vec![table.clone()];
    let origin = table.origin();
    let other = || "other".to_owned();
    for origin in [
        Origin { device: other(), ..origin.clone() },
        Origin { date: other(), ..origin.clone() },
        Origin { command: other(), ..origin.clone() },
    ] {
        tables.push(Table::new(&origin, table.entries()).expect("right"));
    }
    let with = |at: usize, entry: Entry| {
        let mut entries = table.entries().to_vec();
        entries[at] = entry;
        Table::new(origin, &entries).expect("right")
    };
    let (first, staged, last) = (table.entries()[0], table.entries()[3], table.entries()[4]);
    tables.extend([
        with(4, Entry { ranks: 7, ..last }),
        with(4, Entry { elem_bytes: 4, ..last }),
        with(3, Entry { declared: Declared::InPlace, ..staged }),
        with(0, Entry { up_to_bytes: 262_143, ..first }),
        with(0, Entry { algorithm: Algorithm::TwoShotPush, ..first }),
        with(0, Entry { blocks: 131, ..first }),
        with(0, Entry { threads: 129, ..first }),
        Table::new(origin, &table.entries()[1..]).expect("right"),
    ]);
    let mut fingerprints: Vec<u64> = tables.iter().map(Table::fingerprint).collect();
    assert_eq!(fingerprints[0], Table::read(TEXT).expect("right").fingerprint());
    fingerprints.sort_unstable();
    fingerprints.dedup();
    assert_eq!(fingerprints.len(), tables.len());
}

#[test]
fn a_table_of_other_gpus_is_refused() {
    let on = |device: &str| {
        let origin = Origin { device: device.to_owned(), ..table().origin().clone() };
        Table::new(&origin, table().entries()).expect("right")
    };
    assert_eq!(on("NVIDIA H200").check_device("NVIDIA H200"), Ok(()));
    assert_eq!(on("CPU: of some kind").check_device("CPU"), Ok(()));
    assert_eq!(on("CPU").check_device("CPU"), Ok(()));
    for (measured, here) in
        [("NVIDIA H200", "NVIDIA H100"), ("NVIDIA H200: NVL", "NVIDIA H200"), ("NVIDIA H200", "CPU"), ("CPUX", "CPU")]
    {
        let error = on(measured).check_device(here).expect_err(measured);
        assert_eq!(error, TableError::Device { measured: measured.to_owned(), here: here.to_owned() });
    }
    assert_eq!(Origin::gpus([(0, "NVIDIA H200"), (1, "NVIDIA A100"), (2, "NVIDIA H200")]), "NVIDIA A100, NVIDIA H200");
    assert_eq!(Origin::gpus([(0, "NVIDIA H200"), (0, "NVIDIA H200")]), "NVIDIA H200, shared");
}
