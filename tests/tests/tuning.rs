//! Plans by a table that was measured: its rows where it has some, the built-in ones elsewhere, on all ranks alike.

use allfold::tuning::{Declared, Entry, Origin, ROWS, Table, TableError};
use allfold::{
    Algorithm, CallOptions, Communicator, Dtype, Error, InputMode, Limits, Options, Plan, RankBuffers, ReduceOp,
    Request,
};

const LIMITS: Limits = Limits {
    world: 2,
    max_blocks: 132,
    max_threads: [1024; 6],
    staging_bytes: 1 << 40,
    scratch_bytes: 1 << 40,
    landing_bytes: 16 << 20,
    reaches_buffers: true,
};

fn origin(device: &str) -> Origin {
    Origin { device: device.to_owned(), date: "2026-11-29".to_owned(), command: "by hand".to_owned() }
}

fn entry(declared: Declared, up_to_bytes: u64, algorithm: Algorithm, blocks: u32, threads: u32) -> Entry {
    Entry { ranks: 2, elem_bytes: 2, declared, up_to_bytes, algorithm, blocks, threads }
}

/// Not what the built-in rows choose for any of these calls.
fn table() -> Table {
    let entries = [
        entry(Declared::Registered, 4096, Algorithm::TwoShot, 3, 96),
        entry(Declared::Registered, 1 << 20, Algorithm::OneShot, 7, 192),
        entry(Declared::Registered, u64::MAX, Algorithm::TwoShotPush, 9, 224),
        entry(Declared::InPlace, u64::MAX, Algorithm::TwoShot, 5, 160),
        entry(Declared::Staged, u64::MAX, Algorithm::TwoShot, 11, 416),
    ];
    Table::new(&origin("NVIDIA H200"), &entries).unwrap()
}

fn options(tuning: Option<Table>) -> Options {
    Options { inputs: InputMode::ALL.to_vec(), tuning, ..Options::default() }
}

fn request(dtype: Dtype, bytes: u64, in_place: bool) -> Request {
    Request { dtype, op: ReduceOp::Sum, elems: bytes / dtype.bytes() as u64, bytes, in_place, aligned: true }
}

fn choose(options: &Options, world: u32, request: &Request, call: &CallOptions) -> Plan {
    Plan::choose(request, call, options, &Limits { world, ..LIMITS }, ROWS).unwrap()
}

fn by(input: InputMode) -> CallOptions {
    CallOptions { input: Some(input), ..CallOptions::default() }
}

/// Algorithm, working blocks and threads.
fn grid(plan: Plan) -> (Algorithm, u32, u32) {
    (plan.algorithm, plan.blocks - u32::from(plan.algorithm.pushes()), plan.threads)
}

#[test]
fn a_table_has_its_rows_taken() {
    let options = options(Some(table()));
    for dtype in [Dtype::Bf16, Dtype::F16] {
        let plan = |input, bytes, in_place| grid(choose(&options, 2, &request(dtype, bytes, in_place), &by(input)));
        assert_eq!(plan(InputMode::Registered, 4096, false), (Algorithm::TwoShot, 2, 96));
        assert_eq!(plan(InputMode::Registered, 4098, false), (Algorithm::OneShot, 2, 192));
        assert_eq!(plan(InputMode::Registered, 1 << 20, false), (Algorithm::OneShot, 7, 192));
        assert_eq!(plan(InputMode::Registered, 2 << 20, false), (Algorithm::TwoShotPush, 9, 224));
        assert_eq!(plan(InputMode::Registered, 2 << 20, true), (Algorithm::TwoShot, 5, 160));
        for input in [InputMode::Memcpy, InputMode::Copied] {
            assert_eq!(plan(input, 2 << 20, false), (Algorithm::TwoShot, 11, 416));
            assert_eq!(plan(input, 2 << 20, true), (Algorithm::TwoShot, 11, 416));
        }
    }
}

#[test]
fn calls_that_it_does_not_speak_of_are_done_as_without_it() {
    let (with, without) = (options(Some(table())), options(None));
    let mut compared = 0;
    for world in 1..=8 {
        for dtype in Options::DTYPES {
            for bytes in (4..30).map(|power| 1 << power) {
                for (input, in_place) in InputMode::ALL.into_iter().flat_map(|i| [(i, false), (i, true)]) {
                    let request = request(dtype, bytes, in_place);
                    let plan = |options| choose(options, world, &request, &by(input));
                    if world == 2 && dtype.bytes() == 2 {
                        continue;
                    }
                    assert_eq!(plan(&with), plan(&without), "{world} ranks, {dtype:?}, {bytes} bytes, {input:?}");
                    compared += 1;
                }
            }
        }
    }
    assert_eq!(compared, (8 * Options::DTYPES.len() - 2) * 26 * 6);
}

#[test]
fn what_may_not_be_done_as_the_table_says_is_done_by_its_next_row_or_a_built_in_one() {
    let small = request(Dtype::Bf16, 4096, false);
    let algorithms = |without| Algorithm::ALL.into_iter().filter(|&a| a != without).collect();
    let narrow = Options { algorithms: algorithms(Algorithm::TwoShot), ..options(Some(table())) };
    let plan = choose(&narrow, 2, &small, &by(InputMode::Registered));
    assert_eq!(grid(plan), (Algorithm::OneShot, 2, 192), "its next row");
    // A push of 64 MiB does not fit the landing area.
    let large = request(Dtype::Bf16, 64 << 20, false);
    let plan = |options| choose(options, 2, &large, &by(InputMode::Registered));
    assert_eq!(plan(&options(Some(table()))), plan(&options(None)));
    // Asked for by name: the table's grid where it has one for so many bytes, else the built-in one.
    let asked = |options: &Options, algorithm| {
        let call = CallOptions { algorithm: Some(algorithm), ..by(InputMode::Registered) };
        choose(options, 2, &request(Dtype::Bf16, 1 << 20, false), &call)
    };
    assert_eq!(grid(asked(&options(Some(table())), Algorithm::OneShot)), (Algorithm::OneShot, 7, 192));
    for algorithm in [Algorithm::TwoShot, Algorithm::OnePass] {
        assert_eq!(asked(&options(Some(table())), algorithm), asked(&options(None), algorithm));
    }
}

#[test]
fn whoever_asks_gets_the_same_plan() {
    // What may differ between ranks: alignment, and which copy of the table they have.
    let text = table().to_string();
    let ranks: Vec<Options> = (0..2).map(|_| options(Some(Table::read(&text).unwrap()))).collect();
    let tables: Vec<&Table> = ranks.iter().filter_map(|options| options.tuning.as_ref()).collect();
    assert_eq!(tables[0].fingerprint(), tables[1].fingerprint());
    for bytes in [16, 4096, 4098, 1 << 20, (1 << 20) + 2, 1 << 28] {
        for input in InputMode::ALL {
            let aligned = request(Dtype::Bf16, bytes, false);
            let not = Request { aligned: false, ..aligned };
            let plans = [choose(&ranks[0], 2, &aligned, &by(input)), choose(&ranks[1], 2, &not, &by(input))];
            assert_eq!(plans[0], plans[1], "{bytes} bytes, {input:?}");
        }
    }
}

#[test]
fn b35_a_grid_is_no_larger_than_what_can_be_resident() {
    let entries = [entry(Declared::Registered, u64::MAX, Algorithm::TwoShot, 256, 1024)];
    let options = options(Some(Table::new(&origin("NVIDIA H200"), &entries).unwrap()));
    let limits = Limits { max_blocks: 20, max_threads: [512; 6], ..LIMITS };
    let request = request(Dtype::Bf16, 1 << 26, false);
    let plan = Plan::choose(&request, &by(InputMode::Registered), &options, &limits, ROWS).unwrap();
    assert_eq!((plan.algorithm, plan.blocks, plan.threads), (Algorithm::TwoShot, 20, 512));
}

#[test]
fn cpu_ranks_take_a_table_for_cpu_ranks_and_refuse_one_for_gpus() {
    let entries = [entry(Declared::Registered, u64::MAX, Algorithm::OnePass, 1, 1)];
    let of = |device| Options { tuning: Some(Table::new(&origin(device), &entries).unwrap()), ..Options::default() };
    let mut comm = Communicator::cpu_with(2, of("CPU: this one")).unwrap();
    let input = [half::bf16::from_f32(1.0); 100];
    let mut outputs = [[half::bf16::from_f32(0.0); 100]; 2];
    let buffers: Vec<_> = outputs.iter_mut().map(|output| RankBuffers::new(&input, output)).collect();
    let plan = comm.all_reduce_with(&buffers, ReduceOp::Sum, &CallOptions::default()).unwrap();
    drop(buffers);
    assert_eq!(plan.algorithm, Algorithm::OnePass);
    assert!(outputs.as_flattened().iter().all(|sum| sum.to_f32() == 2.0));
    let refused = Communicator::cpu_with(2, of("NVIDIA H200")).map(drop);
    assert!(matches!(refused, Err(Error::Table(TableError::Device { .. }))), "{refused:?}");
}
