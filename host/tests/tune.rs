//! The program `allfold tune`: it writes a table that the library and `allfold bench` take, and says why where it writes none.

use std::path::PathBuf;
use std::process::{Command, Output};

use allfold::tuning::{Declared, Table};
use allfold::{Communicator, Dtype, Options};

fn allfold(line: &str, files: &[&PathBuf]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_allfold"));
    command.args(line.split_whitespace()).args(files).output().expect("the program starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn what_it_writes_is_taken_by_the_bench_and_the_library() {
    let path = file("two.tuning");
    let tuned = allfold("tune --backend cpu --ranks 2 --max 4K --seconds 5 --out", &[&path]);
    assert_eq!(tuned.status.code(), Some(0), "{}", said(&tuned));
    for word in ["registered", "in_place", "staged", "built-in", "4096", "Every result verified"] {
        assert!(said(&tuned).contains(word), "{word}: {}", said(&tuned));
    }

    let table = Table::read(&std::fs::read_to_string(&path).expect("a file")).expect("a table");
    assert!(table.origin().device.starts_with("CPU: "), "{table}");
    assert!(table.origin().command.starts_with("allfold tune --backend cpu --ranks 2"), "{table}");
    assert!(table.speaks_of(2, Dtype::F32) && !table.speaks_of(2, Dtype::Bf16) && !table.speaks_of(3, Dtype::F32));
    for declared in Declared::ALL {
        assert!(table.row(2, Dtype::F32, declared, 1 << 30, |_| true).is_some(), "{declared:?}: {table}");
    }
    Communicator::cpu_with(2, Options { tuning: Some(table), ..Options::default() }).expect("a table for CPU ranks");

    let bench = "bench --backend cpu --ranks 2 --bytes 1K,4K,64K --iters 3 --tuning";
    for more in ["", " --in-place", " --input copied"] {
        let benched =
            allfold(&format!("bench --backend cpu --ranks 2 --bytes 1K,64K --iters 3{more} --tuning"), &[&path]);
        assert_eq!(benched.status.code(), Some(0), "{more}: {}", said(&benched));
        assert!(!said(&benched).contains("note"), "{}", said(&benched));
    }
    let other = allfold(&bench.replace("--ranks 2", "--ranks 3"), &[&path]);
    assert_eq!(other.status.code(), Some(0), "{}", said(&other));
    assert!(said(&other).contains("no rows for 3 ranks and f32"), "{}", said(&other));
}

#[test]
fn the_bench_does_as_the_table_says() {
    let path = file("by-hand.tuning");
    let text = "# allfold tuning 1\n# device CPU\n# date 2026-11-29\n# command by hand\n\
                2 4 registered 2048 one_pass 1 1\n2 4 registered max exchange 1 1\n";
    std::fs::write(&path, text).expect("written");
    let benched = allfold("bench --backend cpu --ranks 2 --bytes 2K,4K --iters 3 --csv --tuning", &[&path]);
    assert_eq!(benched.status.code(), Some(0), "{}", said(&benched));
    assert!(said(&benched).contains(",2048,512,f32,sum,one-pass,"), "{}", said(&benched));
    assert!(said(&benched).contains(",4096,1024,f32,sum,exchange,"), "{}", said(&benched));

    for (from, to, why) in [
        ("one_pass", "one_step", "line 5: there is no algorithm \"one_step\""),
        ("CPU", "NVIDIA H200", "measured on \"NVIDIA H200\", and the ranks are on \"CPU\""),
        ("tuning 1", "tuning 9", "line 1: "),
    ] {
        std::fs::write(&path, text.replace(from, to)).expect("written");
        let refused = allfold("bench --backend cpu --ranks 2 --bytes 2K --tuning", &[&path]);
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        assert!(said(&refused).contains(why), "{}", said(&refused));
    }
    let nowhere = allfold("bench --backend cpu --tuning", &[&file("no such file")]);
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(said(&nowhere).contains("no such file"), "{}", said(&nowhere));
}

#[test]
fn it_refuses_what_it_cannot_do() {
    for (line, why) in [
        ("tune --backend cpu --ranks 1", "one rank alone"),
        ("tune --backend cpu --dtype f16,bf16", "bytes of an element"),
        ("tune --backend cpu --max 3", "no element"),
        ("tune --backend cpu --devices 0", "--devices"),
        ("tune --seconds 0", "--seconds"),
    ] {
        let refused = allfold(line, &[]);
        assert_eq!(refused.status.code(), Some(2), "{line}: {}", said(&refused));
        assert!(said(&refused).contains(why), "{line}: {}", said(&refused));
    }
}

#[test]
fn a_table_of_two_element_sizes_goes_to_standard_output() {
    let tuned = allfold("tune --backend cpu --ranks 3 --max 1K --seconds 2 --dtype f32,bf16 --out -", &[]);
    assert_eq!(tuned.status.code(), Some(0), "{}", said(&tuned));
    let table = Table::read(&String::from_utf8_lossy(&tuned.stdout)).expect("nothing but a table");
    assert!(table.speaks_of(3, Dtype::F32) && table.speaks_of(3, Dtype::F16));
}
