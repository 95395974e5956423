//! The target `ptx` of `allfold::fuzzing`.

#![no_main]

allfold_fuzz::target!("ptx");
