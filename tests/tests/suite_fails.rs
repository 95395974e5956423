//! The suite can fail: on a machine that lies about its memory, each kind of difference is found and named.

use std::cell::RefCell;
use std::rc::Rc;

use allfold::{Algorithm, Communicator, Dtype, InputMode, Options, Preset};
use allfold_tests::call::{Call, GUARD_BYTES};
use allfold_tests::data::Data;
use allfold_tests::machine::{CpuMachine, Machine, Memory};
use allfold_tests::suite::{Bench, Outcome, Property};
use anyhow::Result;
use cust::stream::Stream;

/// CPU ranks, one of whose bytes is not read as it is.
struct Liar {
    /// The rank, the byte of its memory, and the bits that are flipped.
    lie: (usize, usize, u8),
    told: Rc<RefCell<usize>>,
}

impl Liar {
    fn new(rank: usize, byte: usize, bits: u8) -> Liar {
        Liar { lie: (rank, byte, bits), told: Rc::default() }
    }
}

impl Machine for Liar {
    fn name(&self) -> String {
        "a liar".into()
    }
    fn devices(&self) -> Option<&[u32]> {
        None
    }
    fn most_ranks(&self) -> usize {
        3
    }
    fn communicator(&self, world: usize, options: Options) -> allfold::Result<Communicator> {
        CpuMachine.communicator(world, options)
    }
    fn streams(&self, _rank: usize, _count: usize) -> Result<Vec<Stream>> {
        Ok(Vec::new())
    }
    fn chain(&self, _rank: usize, _stream: &Stream) -> Result<()> {
        Ok(())
    }
    fn make_current(&self, _rank: usize) -> Result<()> {
        Ok(())
    }
    fn memory(&self, rank: usize, bytes: usize) -> Result<Box<dyn Memory>> {
        let (of, byte, bits) = self.lie;
        let lie = (of == rank).then_some((byte, bits));
        Ok(Box::new(LyingMemory { memory: CpuMachine.memory(rank, bytes)?, lie, told: Rc::clone(&self.told) }))
    }
}

struct LyingMemory {
    memory: Box<dyn Memory>,
    lie: Option<(usize, u8)>,
    told: Rc<RefCell<usize>>,
}

impl Memory for LyingMemory {
    fn address(&self) -> u64 {
        self.memory.address()
    }
    fn bytes(&self) -> usize {
        self.memory.bytes()
    }
    fn stream(&self) -> Option<&Stream> {
        None
    }
    fn upload(&mut self, bytes: &[u8]) -> Result<()> {
        self.memory.upload(bytes)
    }
    fn download(&self, bytes: &mut [u8]) -> Result<()> {
        self.memory.download(bytes)?;
        if let Some((byte, bits)) = self.lie {
            bytes[byte] ^= bits;
            *self.told.borrow_mut() += 1;
        }
        Ok(())
    }
    fn fill(&mut self, offset: usize, bytes: usize, value: u8) -> Result<()> {
        self.memory.fill(offset, bytes, value)
    }
    fn delay(&self) -> Result<()> {
        Ok(())
    }
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
}

/// Elements of the call: 400 bytes. The input starts at byte 256, the output at the first multiple of 256 that leaves
/// room for a shift and a guard zone.
const ELEMS: usize = 100;
const INPUT: usize = GUARD_BYTES;
const OUTPUT: usize = 1024;

/// What the suite says of three ranks of which one lies.
#[track_caller]
fn says(rank: usize, byte: usize, bits: u8, expected: &[&str]) {
    let liar = Liar::new(rank, byte, bits);
    let bench = Bench::new(&liar, true, 0);
    let mut comm = bench.communicator(3, bench.options(Preset::Allfold, 4096)).unwrap();
    let call = Call { data: Data::Ramp(0), ..Call::new(Dtype::F32, ELEMS) };
    let result = bench.run(&mut comm, &[call.by((Algorithm::TwoShot, InputMode::Copied))]);
    assert!(*liar.told.borrow() > 0, "nothing was read");
    let said = format!("{:#}", result.expect_err("a lie was believed"));
    for part in expected {
        assert!(said.contains(part), "{part:?} is not in {said:?}");
    }
}

#[test]
fn a_truth_is_believed() {
    let honest = Liar::new(0, 0, 0);
    let bench = Bench::new(&honest, true, 0);
    let mut comm = bench.communicator(3, bench.options(Preset::Allfold, 4096)).unwrap();
    bench.run(&mut comm, &[Call::new(Dtype::F32, ELEMS)]).unwrap();
}

#[test]
fn a_wrong_sum_is_found_with_its_rank_element_and_values() {
    // Rank 2's element 37 must be 6 + 3 * (37 mod 7) = 12; half of it is one bit of the exponent less.
    let byte = OUTPUT + 4 * 37 + 2;
    says(2, byte, 0x80, &["3 ranks", "rank 2", "element 37", "expected 1.2e1 (0x41400000)", "0x41c00000"]);
    // The lowest bit of the first and of the last element.
    says(0, OUTPUT, 1, &["rank 0", "element 0:"]);
    says(1, OUTPUT + 4 * 99, 1, &["rank 1", "element 99:"]);
}

#[test]
fn a_changed_input_is_found() {
    says(1, INPUT + 5, 4, &["rank 1", "byte 5 of the input of call 0"]);
}

#[test]
fn a_touched_guard_is_found_on_all_sides() {
    says(0, INPUT - 1, 1, &["rank 0", "1 bytes before the input of call 0", "0xa5 became 0xa4"]);
    says(0, INPUT + 400, 1, &["0 bytes after the input of call 0"]);
    says(2, OUTPUT - 1, 1, &["1 bytes before the output of call 0"]);
    says(2, OUTPUT + 400, 1, &["0 bytes after the output of call 0"]);
    says(2, OUTPUT + 400 + 255, 1, &["255 bytes after the output of call 0"]);
}

#[test]
fn a_report_counts_failures_and_skipped_properties() {
    let honest = Liar::new(0, 0, 0);
    let bench = Bench::new(&honest, true, 0);
    let holds = |bench: &Bench| {
        bench.count(1);
        Ok(Outcome::Holds)
    };
    let property = |check| Property { name: "a property", says: "", check };
    let skipped = property(|_: &Bench| Ok(Outcome::Skipped("there is no moon".into())));
    assert!(bench.report(&[property(holds), skipped]));
    assert!(!bench.report(&[property(holds), property(|_: &Bench| anyhow::bail!("no"))]));
    // What checks nothing does not hold.
    let empty = property(|_: &Bench| Ok(Outcome::Holds));
    assert!(bench.check(&empty).is_err_and(|error| error.to_string().contains("nothing was checked")));
}
