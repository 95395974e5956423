//! The portable half: what two sides must agree on, the barriers, and one file an algorithm.
//!
//! | file | what |
//! |---|---|
//! | [`abi`], `arguments`, `dtype`, `workspace` | numbers, names and layouts that host and device share |
//! | [`entry_point`] | the names of the kernels |
//! | [`epoch`] | the number of a call, and how it is kept on the device |
//! | [`machine`] | what one thread of a rank can do |
//! | [`barrier`] | the two barriers |
//! | [`share`] | which packs belong to which rank, block and thread |
//! | [`element`], [`reduction`] | 16-byte packs of each dtype, what is done to them, in rank order |
//! | [`spec`] | a protocol as a value: which barrier, which order, what protects a buffer's reuse |
//! | [`preset`] | the protocols of other libraries and our own, with the argument for each |
//! | [`soundness`] | what is known of a protocol |
//! | [`one_shot`], [`two_shot`], [`one_pass`], [`exchange`] | the algorithms that read peers' data, between barriers |
//! | [`one_shot_push`], [`two_shot_push`], [`push`] | those that store into peers' landing areas, and what they share |
//! | [`delayed`] | a machine with planted delays, for stress runs |
//! | [`mark`] | when a block of a call came where |
//! | [`stage`] | the copy that goes before a kernel when the input is not registered |
//! | [`wait`], [`status`] | waits that end, and what ranks leave word of then for each other and for the host |
//! | [`signature`] | what a call is, as ranks tell each other |
//! | `poison` | what the output of a call holds that was left before its end |
//! | [`verify`] | kernels that write and check stamped data, for benches and stress runs |
//!
//! Nothing here may name a pointer, an atomic, an instruction or a target.

pub mod abi;
mod arguments;
pub mod barrier;
mod call;
pub mod delayed;
mod dtype;
pub mod element;
pub mod entry_point;
pub mod epoch;
pub mod exchange;
pub mod machine;
pub mod mark;
pub mod one_pass;
pub mod one_shot;
pub mod one_shot_push;
mod poison;
pub mod preset;
pub mod push;
pub mod reduction;
pub mod share;
pub mod signature;
pub mod soundness;
pub mod spec;
pub mod stage;
pub mod status;
pub mod two_shot;
pub mod two_shot_push;
pub mod verify;
pub mod wait;
mod workspace;
