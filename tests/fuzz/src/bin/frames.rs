//! The target `frames` of `allfold::fuzzing`.

#![no_main]

allfold_fuzz::target!("frames");
