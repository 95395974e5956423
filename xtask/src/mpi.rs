//! `mpi`: what stands behind the feature `mpi` of crate allfold, checked and tested with Open MPI: this system's, or
//! Debian's, fetched and unpacked as the compiler for PTX is.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::debian;
use crate::shell;

/// Debian's packages (of Debian 12), with what they depend on: Open MPI, and what reads its header for crate `mpi`.
const PACKAGES: [&str; 2] = ["openmpi-bin", "libclang1-14"];

/// Its header and its library's name. What this depends on is not needed: a compiler for Fortran, for one.
const HEADERS: &str = "libopenmpi-dev";

/// How the tests are built: they are the library's, and have nothing of the program.
const BUILD: [&str; 5] = ["--package", "allfold", "--no-default-features", "--features", "mpi"];

/// The library is built once more, with the feature, and what is tested of it is not how fast it is.
const QUICK: [&str; 2] = ["--config", "profile.dev.package.allfold.opt-level=0"];

/// Lints, documents and tests the library with the feature.
///
/// # Errors
///
/// When there is no Open MPI and none can be had, or a check fails.
pub fn run() -> Result<()> {
    let mpi = OpenMpi::find()?;
    let cargo = |before: &[&str], after: &[&str]| {
        let mut command = shell::cargo();
        command.args(QUICK).args(before).args(BUILD).args(after).env("RUSTDOCFLAGS", "-Dwarnings");
        mpi.set(&mut command)?;
        shell::run(&mut command)
    };
    cargo(&["clippy"], &["--lib", "--test", "mpi", "--example", "mpi", "--", "-Dwarnings"])?;
    cargo(&["doc", "--no-deps"], &[])?;
    // The tests run it.
    cargo(&["build"], &["--example", "mpi"])?;
    cargo(&["test"], &["--test", "mpi"])?;
    cargo(&["test", "--doc"], &["rendezvous::mpi"])
}

/// An Open MPI.
enum OpenMpi {
    /// This system's, with whatever else it has.
    Installed,
    /// Debian's packages, unpacked here.
    Unpacked(PathBuf),
}

impl OpenMpi {
    fn find() -> Result<OpenMpi> {
        if shell::on_path("mpicc").is_some() && shell::on_path("mpirun").is_some() {
            println!("mpi: this system's mpicc and mpirun");
            return Ok(OpenMpi::Installed);
        }
        let dir = shell::target()?.join("open-mpi");
        if !mpirun(&dir).is_file() {
            println!("mpi: no mpicc and mpirun here; fetching Debian's into {} …", dir.display());
            let packages = debian::unpack(&dir, &PACKAGES, &[HEADERS], of_open_mpi)
                .context("no Open MPI. Install Debian's packages openmpi-bin, libopenmpi-dev and libclang-dev")?;
            println!("mpi: unpacked {}", packages.join(" "));
        }
        Ok(OpenMpi::Unpacked(dir))
    }

    /// Lets `command`, and what it starts, build with this Open MPI and run it: as any user, with more processes than
    /// cores, each on any core, and by shared memory alone.
    fn set(&self, command: &mut Command) -> Result<()> {
        for (name, value) in [
            ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
            ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
            ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
            ("OMPI_MCA_hwloc_base_binding_policy", "none"),
            ("OMPI_MCA_pml", "ob1"),
            ("OMPI_MCA_btl", "self,vader"),
            // Drivers of networks that are not here.
            ("OMPI_MCA_mca_base_component_show_load_errors", "0"),
            ("PMIX_MCA_pcompress_base_silence_warning", "1"),
        ] {
            command.env(name, value);
        }
        let OpenMpi::Unpacked(dir) = self else { return Ok(()) };
        let prefix = dir.join("usr");
        let libraries = shell::read(Command::new("cc").arg("-print-multiarch"))?;
        let libraries = prefix.join("lib").join(libraries.trim());
        // clang's own headers are in a package of their own; gcc's do as well.
        let headers = shell::read(Command::new("cc").arg("-print-file-name=include"))?;
        debian::set_libraries(command, &mpirun(dir));
        command.env("OPAL_PREFIX", &prefix).env("PMIX_INSTALL_PREFIX", libraries.join("pmix2"));
        command.env("MPICC", prefix.join("bin/mpicc.openmpi")).env("MPIRUN", mpirun(dir));
        command.env("LIBCLANG_PATH", libraries).env("BINDGEN_EXTRA_CLANG_ARGS", format!("-I{}", headers.trim()));
        Ok(())
    }
}

fn mpirun(dir: &Path) -> PathBuf {
    dir.join("usr/bin/mpirun.openmpi")
}

/// What must lie in the same folder, whatever this system has installed of it.
fn of_open_mpi(package: &str) -> bool {
    package.contains("openmpi") || package.starts_with("libpmix")
}
