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
    b23_b85_b86_small_lengths: 2 3;
    b85_lengths_by_powers: 3;
    b16_b17_b19_b23_b56_b109_sizes_others_failed_at: 2 5 8;
    presets: 2 3 4;
    b55_misaligned: 2 3;
    b20_b35_grids: 2 4;
    b13_b31_b50_epochs: 2 3;
    b107_b110_rank_order: 4;
    b08_b112_b113_same_bits: 2 4;
    b34_b106_edge_values: 2;
    b34_b106_b107_ops_and_types: 3;
    b09_b47_b129_mixed: 2 4;
    b24_b29_two_communicators: 2;
    b11_rewritten_inputs: 2 4 8;
    b11_b13_b37_late_rank: 2 4;
    b44_given_up: 2;
    b24_parts: 1 2 3 4;
    parts_in_turn: 4 5;
    parts_of_parts: 2 4 8;
    b01_b02_stamps_back_to_back: 2 4;
    b02_b06_b31_b52_stress: 2 4 8;
    b09_b31_b52_sizes_about_the_switch: 2 4;
    b06_b14_b76_b81_b82_made_and_summed_in_a_graph: 2 4;
    b67_names: 2 3;
    b61_larger_than_the_room: 2 3;
    b75_many_names: 2 3;
    b61_b71_come_and_go: 2 4;
    b70_freed: 2;
    b76_b81_finished_later: 2 3 8;
    b53_one_rank_fails: 2 3;
    b71_b83_rows_come_back: 2 3;
    b78_b79_captured_differently: 2 3;
    counted: 1 3;
    traced: 2 3;
    b33_b40_b96_made_and_dropped: 2;
    b118_idle: 8;
}
