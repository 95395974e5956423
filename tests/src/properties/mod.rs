//! The properties. Each is a function of a [`Bench`](crate::suite::Bench) and runs on every machine that can.

use crate::suite::Property;

mod captured;
mod counters;
mod device_memory;
mod epochs;
mod forms;
mod graphs;
mod hot_path;
mod lengths;
mod life;
mod refusals;
mod registered;
mod sequences;
mod splits;
mod stamps;
mod streams;
mod typed;
mod values;

/// Those that ask for nothing but what a process sees of its own rank.
pub const OF_PROCESSES: [&str; 29] = [
    "small_lengths",
    "lengths_by_powers",
    "sizes_others_failed_at",
    "presets",
    "misaligned",
    "grids",
    "epochs",
    "rank_order",
    "same_bits",
    "edge_values",
    "mixed",
    "two_communicators",
    "rewritten_inputs",
    "late_rank",
    "given_up",
    "parts",
    "parts_in_turn",
    "parts_of_parts",
    "stamps_back_to_back",
    "stress",
    "names",
    "come_and_go",
    "freed",
    "finished_later",
    "rows_come_back",
    "captured_differently",
    "counted",
    "made_and_dropped",
    "idle",
];

/// Those that processes with GPUs are asked beside.
pub const OF_GPU_PROCESSES: [&str; 2] = ["pools", "remapped"];

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
    lengths::small_lengths: "every length from 0 to 300, in every form of the default protocol";
    lengths::lengths_by_powers: "lengths round powers of two";
    lengths::sizes_others_failed_at: "sizes at which other libraries were wrong";
    lengths::huge: "more elements than 32 bits count";
    forms::presets: "every protocol that is sound, in every form that is";
    forms::misaligned: "buffers off alignment, in another way on each rank";
    forms::grids: "grids of every shape";
    epochs::epochs: "calls with other grids than the last, across the wraps of 32 and 64 bits";
    values::rank_order: "sums are taken in rank order, in f32, and rounded once";
    values::same_bits: "the same bits on all ranks, by all algorithms, at all sizes";
    values::edge_values: "signed zeros, subnormals, infinities, NaNs and the largest numbers";
    sequences::mixed: "sizes, dtypes, forms and grids mixed, back to back";
    sequences::two_communicators: "two communicators of different sizes take turns";
    sequences::rewritten_inputs: "an input may be overwritten right after the call";
    sequences::late_rank: "a rank that comes late is waited for";
    sequences::given_up: "a wait for a rank that does not come ends, and says for whom it was";
    sequences::aborted: "an abort ends a communicator for all, and those who are left make a new one";
    splits::parts: "however a communicator is split, each part sums what its ranks have, in its own order";
    splits::parts_in_turn: "a communicator and its parts take turns";
    splits::parts_of_parts: "a part is split again, and outlives what it was split from";
    streams::chained_streams: "calls on other streams than the last, put in order";
    streams::other_streams: "a call on another stream than the last is refused until the two are in order";
    streams::communicators_at_once: "communicators that work at the same time never lock each other out";
    typed::typed_buffers: "slices, vectors and the device buffers of cust are taken as they are";
    stamps::stamps_back_to_back: "a wrong sum is counted on the device, and there is none";
    stamps::stress: "as many calls as asked for, each on new input";
    registered::names: "registered buffers are reached by their names, and by no others";
    registered::come_and_go: "buffers that are registered and released leave nothing behind";
    device_memory::pools: "memory of stream-ordered pools is registered in one process, and refused between several";
    device_memory::mapped: "memory mapped piece by piece for one GPU is let in for all of a process";
    device_memory::remapped: "other memory in the place of a registered piece is told from it";
    registered::freed: "registered memory that was freed is noticed";
    captured::finished_later: "captured calls whose buffers are made known afterwards, in graphs that come and go";
    captured::rows_come_back: "a graph that is gone gives back what its calls held";
    captured::captured_differently: "ranks that captured different calls are told so, and nothing is summed";
    graphs::graphs: "captured calls do nothing until they are replayed, and then what they must";
    counters::counted: "what a communicator counts of its calls is what was called";
    hot_path::a_call_is_a_launch: "a call costs its caller a launch a rank, and no memory";
    refusals::refused_lengths: "lengths that differ between ranks or buffers, buffers for another number of ranks";
    refusals::refused_addresses: "pointers that cannot be";
    refusals::refused_overlaps: "outputs that overlap what they must not";
    refusals::refused_forms: "forms that do not exist, are unsafe or were not declared";
    refusals::refused_capacities: "a byte more than there is room for, and not a byte less";
    refusals::refused_grids: "grids that cannot be launched";
    refusals::refused_makings: "communicators that cannot be";
    refusals::refused_memory: "memory of the wrong kind";
    refusals::empty_calls: "calls without elements";
    life::made_and_dropped: "communicators are made, used and dropped, and nothing is left";
    life::dropped_in_flight: "a communicator dropped while it works finishes its work";
    life::idle: "ranks that wait for calls use no processor time";
}
