//! The target `reach` of `allfold::fuzzing`.

#![no_main]

allfold_fuzz::target!("reach");
