//! The target `meetings` of `allfold::fuzzing`.

#![no_main]

allfold_fuzz::target!("meetings");
