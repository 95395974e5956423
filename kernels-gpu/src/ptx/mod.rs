//! What exists only on the GPU: its machine and the entry points. See `docs/codegen.md` for who knows the code generator.

mod entry;
mod machine;

/// Kernels have no way to panic: a path to this is an unresolved call, which `cargo xtask audit-ptx` and `ptxas` refuse.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
