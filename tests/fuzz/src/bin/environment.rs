//! The target `environment` of `allfold::fuzzing`.

#![no_main]

allfold_fuzz::target!("environment");
