//! The target `words` of `allfold::fuzzing`.

#![no_main]

allfold_fuzz::target!("words");
