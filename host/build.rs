//! Lets the crate link where no CUDA is installed: `cust` asks the linker for `-lcuda`, and this puts an empty
//! `libcuda.a` on the search path to answer it. The functions themselves are in `src/cuda/driver.rs`.

use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(env::var("OUT_DIR")?);
    // The eight bytes that open every archive, and no member after them.
    fs::write(folder.join("libcuda.a"), b"!<arch>\n")?;
    println!("cargo::rustc-link-search=native={}", folder.display());
    println!("cargo::rerun-if-changed=build.rs");
    Ok(())
}
