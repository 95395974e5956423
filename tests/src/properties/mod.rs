//! The properties. Each is a function of a [`Bench`](crate::suite::Bench) and runs on every machine that can.

use crate::suite::Property;

mod captured;
mod captured_wrong;
mod counters;
mod device_memory;
mod epochs;
mod forms;
mod graphs;
mod hot_path;
mod lengths;
mod life;
mod many;
mod reductions;
mod refusals;
mod registered;
mod sequences;
mod speed;
mod splits;
mod stamps;
mod streams;
mod switching;
mod traced;
mod typed;
mod values;

/// Those that ask for nothing but what a process sees of its own rank.
pub const OF_PROCESSES: [&str; 36] = [
    "b23_b85_b86_small_lengths",
    "b85_lengths_by_powers",
    "b16_b17_b19_b23_b56_b109_sizes_others_failed_at",
    "presets",
    "b55_misaligned",
    "b20_b35_grids",
    "b13_b31_b50_epochs",
    "b107_b110_rank_order",
    "b08_b112_b113_same_bits",
    "b34_b106_edge_values",
    "b34_b106_b107_ops_and_types",
    "b09_b47_b129_mixed",
    "b24_b29_two_communicators",
    "b11_rewritten_inputs",
    "b11_b13_b37_late_rank",
    "b44_given_up",
    "b24_parts",
    "parts_in_turn",
    "parts_of_parts",
    "b01_b02_stamps_back_to_back",
    "b02_b06_b31_b52_stress",
    "b09_b31_b52_sizes_about_the_switch",
    "b06_b14_b76_b81_b82_made_and_summed_in_a_graph",
    "b67_names",
    "b61_larger_than_the_room",
    "b75_many_names",
    "b61_b71_come_and_go",
    "b70_freed",
    "b76_b81_finished_later",
    "b53_one_rank_fails",
    "b71_b83_rows_come_back",
    "b78_b79_captured_differently",
    "counted",
    "traced",
    "b33_b40_b96_made_and_dropped",
    "b118_idle",
];

/// Those that processes with GPUs are asked beside.
pub const OF_GPU_PROCESSES: [&str; 2] = ["b65_pools", "b64_remapped"];

macro_rules! properties {
    ($($module:ident::$name:ident: $says:literal;)*) => {
        /// Every property, in the order in which they are run.
        pub const ALL: &[Property] =
            &[$(Property { name: stringify!($name), says: $says, check: $module::$name }),*];

        /// Calls the macro `test` with the name of each property.
        #[macro_export]
        macro_rules! for_each_property {
            ($test:ident) => {
                $($test!($name);)*
            };
        }
    };
}

properties! {
    lengths::b23_b85_b86_small_lengths: "every length from 0 to 300, in every form of the default protocol";
    lengths::b85_lengths_by_powers: "lengths round powers of two";
    lengths::b16_b17_b19_b23_b56_b109_sizes_others_failed_at: "sizes at which other libraries were wrong";
    lengths::b59_b114_huge: "more elements than 32 bits count";
    forms::presets: "every protocol that is sound, in every form that is";
    forms::b55_misaligned: "buffers off alignment, in another way on each rank";
    forms::b20_b35_grids: "grids of every shape";
    epochs::b13_b31_b50_epochs: "calls with other grids than the last, across the wrap of 32 bits";
    values::b107_b110_rank_order: "sums are taken in rank order, in f32, and rounded once";
    values::b08_b112_b113_same_bits: "the same bits on all ranks, by all algorithms, at all sizes";
    values::b34_b106_edge_values: "signed zeros, subnormals, infinities, NaNs and the largest numbers";
    reductions::b34_b106_b107_ops_and_types: "every operation on every element type, the same bits on all ranks";
    sequences::b09_b47_b129_mixed: "sizes, dtypes, forms and grids mixed, back to back";
    sequences::b24_b29_two_communicators: "two communicators of different sizes take turns";
    sequences::b11_rewritten_inputs: "an input may be overwritten right after the call";
    sequences::b11_b13_b37_late_rank: "a rank that comes late is waited for";
    sequences::b44_given_up: "a wait for a rank that does not come ends, and says for whom it was";
    sequences::aborted: "an abort ends a communicator for all, and those who are left make a new one";
    splits::b24_parts: "however a communicator is split, each part sums what its ranks have, in its own order";
    splits::parts_in_turn: "a communicator and its parts take turns";
    splits::parts_of_parts: "a part is split again, and outlives what it was split from";
    streams::b29_chained_streams: "calls on other streams than the last, put in order";
    streams::b27_b29_b30_other_streams: "a call on another stream than the last is refused until the two are in order";
    streams::b27_b35_b47_communicators_at_once: "communicators that work at the same time never lock each other out";
    typed::typed_buffers: "slices, vectors and the device buffers of cust are taken as they are";
    stamps::b01_b02_stamps_back_to_back: "a wrong sum is counted on the device, and there is none";
    stamps::b02_b06_b31_b52_stress: "as many calls as asked for, each on new input";
    switching::b09_b31_b52_sizes_about_the_switch: "sizes about where the algorithm changes, called and replayed in turn";
    switching::b06_b14_b76_b81_b82_made_and_summed_in_a_graph: "inputs that a kernel of the graph has just made, replay after replay";
    registered::b67_names: "registered buffers are reached by their names, and by no others";
    many::b61_larger_than_the_room: "registered buffers that are larger than what a communicator has room for";
    many::b75_many_names: "hundreds of buffers registered at the same time";
    registered::b61_b71_come_and_go: "buffers that are registered and released leave nothing behind";
    device_memory::b65_pools: "memory of stream-ordered pools is registered in one process, and refused between several";
    device_memory::b64_mapped: "memory mapped piece by piece for one GPU is let in for all of a process";
    device_memory::b64_remapped: "other memory in the place of a registered piece is told from it";
    registered::b70_freed: "registered memory that was freed is noticed";
    captured::b76_b81_finished_later: "captured calls whose buffers are made known afterwards, in graphs that come and go";
    captured_wrong::b53_one_rank_fails: "a capture that fails on one rank is known on all, with why";
    captured::b71_b83_rows_come_back: "a graph that is gone gives back what its calls held";
    captured_wrong::b78_b79_captured_differently: "ranks that captured different calls are told so, and nothing is summed";
    graphs::b14_b76_b81_b82_b83_graphs: "captured calls do nothing until they are replayed, and then what they must";
    counters::counted: "what a communicator counts of its calls is what was called";
    traced::traced: "a trace tells when each block came where, and who waited for a rank that was late";
    hot_path::b37_a_call_is_a_launch: "a call costs its caller a launch a rank, and no memory";
    speed::b114_b117_speed: "small calls are quick, and what is chosen is not slower than what is not";
    refusals::b42_b58_refused_lengths: "lengths that differ between ranks or buffers, buffers for another number of ranks";
    refusals::b55_refused_addresses: "pointers that cannot be";
    refusals::refused_overlaps: "outputs that overlap what they must not";
    refusals::refused_forms: "forms that do not exist, are unsafe or were not declared";
    refusals::b61_b62_refused_capacities: "a byte more than there is room for, and not a byte less";
    refusals::b35_refused_grids: "grids that cannot be launched";
    refusals::b38_launches_that_block: "launches that block are refused: one thread could launch one rank alone";
    refusals::b59_b88_refused_makings: "communicators that cannot be";
    refusals::b48_refused_memory: "memory of the wrong kind";
    refusals::b58_empty_calls: "calls without elements";
    life::b33_b40_b96_made_and_dropped: "communicators are made, used and dropped, and nothing is left";
    life::b70_dropped_in_flight: "a communicator dropped while it works finishes its work";
    life::b118_idle: "ranks that wait for calls use no processor time";
}
