//! Properties on CPU ranks that are processes: those that hold of one world size, and of what a process sees of a call.

mod meet;

use allfold_tests::machine::ProcessMachine;
use allfold_tests::properties::{ALL, OF_PROCESSES};
use allfold_tests::suite::Bench;
use meet::{Case, on_all};

/// Calls of the stress property.
const STRESS_CALLS: u64 = 2000;

fn check(name: &str, worlds: &[u32]) {
    let property = ALL.iter().find(|property| property.name == name).expect("a property of this name");
    for &world in worlds {
        on_all(name, Case(world, 0), |seat| {
            let machine = ProcessMachine(seat);
            match Bench::new(&machine, true, STRESS_CALLS).check(property) {
                Ok(Ok(checks)) => println!("{name}: {checks} checked"),
                Ok(Err(why)) => panic!("{name}: skipped, {why}"),
                Err(error) => panic!("{name}: {error:#}"),
            }
        });
    }
}

macro_rules! on_processes {
    ($($name:ident: $($world:literal)*;)*) => {
        $(
            #[test]
            fn $name() {
                check(stringify!($name), &[$($world),*]);
            }
        )*

        #[test]
        fn every_property_of_processes_is_here() {
            assert_eq!([$(stringify!($name)),*], OF_PROCESSES);
        }
    };
}

on_processes! {
    small_lengths: 2 3;
    lengths_by_powers: 3;
    sizes_others_failed_at: 2 5 8;
    presets: 2 3 4;
    misaligned: 2 3;
    grids: 2 4;
    epochs: 2 3;
    rank_order: 4;
    same_bits: 2 4;
    edge_values: 2;
    mixed: 2 4;
    two_communicators: 2;
    rewritten_inputs: 2 4 8;
    late_rank: 2 4;
    given_up: 2;
    parts: 1 2 3 4;
    parts_in_turn: 4 5;
    parts_of_parts: 2 4 8;
    stamps_back_to_back: 2 4;
    stress: 2 4 8;
    names: 2 3;
    come_and_go: 2 4;
    freed: 2;
    finished_later: 2 3 8;
    rows_come_back: 2 3;
    captured_differently: 2 3;
    counted: 1 3;
    made_and_dropped: 2;
    idle: 8;
}
