//! The target `tuning` of `allfold::fuzzing`.

#![no_main]

allfold_fuzz::target!("tuning");
