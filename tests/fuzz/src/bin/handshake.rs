//! The target `handshake` of `allfold::fuzzing`.

#![no_main]

allfold_fuzz::target!("handshake");
