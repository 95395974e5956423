//! Limits, requests and options of the tests of plans.

#![allow(dead_code, reason = "each test uses a part of it")]

use allfold::tuning::{CPU_ROWS, ROWS, Row};
use allfold::{Algorithm, CallOptions, Dtype, InputMode, Limits, Options, Plan, ReduceOp, Request};
use allfold_tests::data::mix;

/// A GPU with room for everything.
pub const LIMITS: Limits = Limits {
    world: 4,
    max_blocks: 132,
    max_threads: [1024; 6],
    staging_bytes: 1 << 40,
    scratch_bytes: 1 << 40,
    landing_bytes: 1 << 40,
    reaches_buffers: true,
};

pub fn limits(world: u32) -> Limits {
    Limits { world, ..LIMITS }
}

pub fn request(dtype: Dtype, bytes: u64, in_place: bool) -> Request {
    Request { dtype, op: ReduceOp::Sum, elems: bytes / dtype.bytes() as u64, bytes, in_place, aligned: true }
}

pub fn all_inputs() -> Options {
    Options { inputs: InputMode::ALL.to_vec(), ..Options::default() }
}

pub fn choose(world: u32, request: &Request, call: &CallOptions) -> Plan {
    choose_by(ROWS, world, request, call)
}

pub fn choose_by(rows: &[Row], world: u32, request: &Request, call: &CallOptions) -> Plan {
    Plan::choose(request, call, &all_inputs(), &limits(world), rows).unwrap()
}

pub fn asks(algorithm: Algorithm, input: InputMode) -> CallOptions {
    CallOptions { algorithm: Some(algorithm), input: Some(input), ..CallOptions::default() }
}

/// A communicator for these algorithms alone.
pub fn only(algorithms: &[Algorithm]) -> Options {
    Options { algorithms: algorithms.to_vec(), ..all_inputs() }
}

/// The tables.
pub const TABLES: [&[Row]; 2] = [ROWS, CPU_ROWS];

/// Numbers of bytes at which a choice may change, and their neighbours by one element.
pub fn edges() -> Vec<u64> {
    let limits = TABLES.into_iter().flatten().map(|row| row.up_to_bytes).filter(|&bytes| bytes < 1 << 40);
    let powers = (4..36).map(|power| 1 << power);
    let mut all: Vec<u64> = limits.chain(powers).flat_map(|bytes| [bytes - 4, bytes, bytes + 4]).collect();
    all.sort();
    all
}

/// Any numbers of bytes, of every magnitude up to 64 GiB, in whole elements of every dtype.
pub fn any_bytes() -> impl Iterator<Item = u64> {
    (0..500).map(|number| (mix(22, 0, number) >> (28 + mix(22, 1, number) % 33)) & !3)
}
