//! `test`: all that CI runs, the quick steps first. Stops at the first that fails.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, bail};

use crate::{audit_ptx, build_ptx, catalogue, driver_symbols, examples, model, mpi, shell, tidy};

/// Longest that the bench may take with its default sizes on CPU ranks.
const BENCH_LIMIT: Duration = Duration::from_secs(20);

/// Dependencies of the program that a user of the library must not get.
const OF_THE_PROGRAM: [&str; 6] = ["clap", "indicatif", "comfy-table", "serde", "serde_json", "signal-hook"];

type Step = fn() -> Result<()>;

/// Why a step cannot run here. It has not passed then, and has not failed.
#[derive(Debug)]
struct Skipped(&'static str);

impl std::fmt::Display for Skipped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SKIPPED: {}", self.0)
    }
}

/// The steps, by name. A name is a command of its own wherever it can be.
const STEPS: [(&str, Step); 17] = [
    ("cargo fmt --all --check", || cargo(&["fmt", "--all", "--check"])),
    ("cargo xtask tidy", tidy::run),
    ("cargo xtask catalogue --check", || catalogue::run(true)),
    ("cargo tree: the library has none of the program's dependencies", library_dependencies),
    ("cargo xtask driver-symbols --check", || driver_symbols::run(true)),
    ("cargo clippy", || cargo(&["clippy", "--workspace", "--all-targets", "--", "-Dwarnings"])),
    ("cargo xtask build-ptx --check", || build_ptx::run(true)),
    ("cargo xtask audit-ptx --check", || audit_ptx::run(true)),
    ("cargo test --workspace", || cargo(&["test", "--workspace"])),
    ("cargo test of the library alone", || cargo(&["test", "--package", "allfold", "--no-default-features"])),
    ("cargo xtask mpi", mpi::run),
    ("cargo xtask model --quick", || model::run(false, true, false)),
    ("cargo xtask examples", examples::run),
    ("cargo doc", documentation),
    ("python3 -m unittest: the scripts of host/benches", scripts),
    ("cargo allfold bench --backend cpu", bench),
    ("cargo allfold doctor", doctor),
];

/// Runs the steps; ends with a line of how many passed and failed, and were skipped if any were.
///
/// # Errors
///
/// When a step failed.
pub fn run() -> Result<()> {
    let started = Instant::now();
    let mut passed = 0;
    let mut failed = 0;
    let mut skipped = 0;
    for (number, (name, step)) in STEPS.iter().enumerate() {
        println!("\n==> {}/{} {name}", number + 1, STEPS.len());
        let begun = Instant::now();
        let outcome = step();
        let seconds = begun.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => {
                passed += 1;
                println!("<== passed in {seconds:.1} s: {name}");
            }
            Err(why) if why.is::<Skipped>() => {
                skipped += 1;
                println!("<== {why}");
            }
            Err(error) => {
                failed += 1;
                println!("{error:#}\n<== FAILED in {seconds:.1} s: {name}");
                let left = &STEPS[number + 1..];
                left.iter().for_each(|(name, _)| println!("    not run: {name}"));
                break;
            }
        }
    }
    println!("\n{:.0} s in all", started.elapsed().as_secs_f64());
    let skips = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
    println!("{passed} passed, {failed} failed{skips}");
    if failed > 0 {
        std::process::exit(1);
    }
    Ok(())
}

fn cargo(arguments: &[&str]) -> Result<()> {
    shell::run(shell::cargo().args(arguments))
}

fn library_dependencies() -> Result<()> {
    let mut tree = shell::cargo();
    tree.args(["tree", "--package", "allfold", "--no-default-features", "--edges", "normal", "--prefix", "none"]);
    let listed = shell::read(tree.args(["--format", "{p}"]))?;
    let names: Vec<_> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let found: Vec<_> = OF_THE_PROGRAM.iter().filter(|name| names.contains(name)).collect();
    if !found.is_empty() {
        bail!("a user of the library gets {found:?}: make them optional dependencies of feature `cli`");
    }
    if !names.contains(&"allfold") {
        bail!("cargo tree did not list the library:\n{listed}");
    }
    Ok(())
}

fn documentation() -> Result<()> {
    let mut doc = shell::cargo();
    doc.args(["doc", "--no-deps", "--workspace"]).env("RUSTDOCFLAGS", "-Dwarnings");
    shell::run(&mut doc)
}

/// Tests of the scripts that join and draw what was measured.
fn scripts() -> Result<()> {
    let Some(python) = shell::on_path("python3") else {
        return Err(Error::msg(Skipped("there is no python3 to run the scripts of host/benches")));
    };
    let mut tests = Command::new(python);
    // -B: nothing is left beside the scripts.
    tests.args(["-B", "-m", "unittest", "discover", "-s", "host/benches/tests"]).current_dir(shell::root());
    shell::run(&mut tests)
}

fn bench() -> Result<()> {
    let mut bench = program()?;
    bench.args(["bench", "--backend", "cpu", "--json"]).stdout(Stdio::piped());
    let begun = Instant::now();
    let child = bench.spawn().with_context(|| format!("cannot start {}", shell::line(&bench)))?;
    let said = within(BENCH_LIMIT, child).with_context(|| shell::line(&bench))?;
    let rows = said.matches("\"wrong\"").count();
    println!("{rows} verified sizes in {:.1} s (limit {} s)", begun.elapsed().as_secs_f64(), BENCH_LIMIT.as_secs());
    if rows == 0 {
        bail!("{} wrote no result", shell::line(&bench));
    }
    Ok(())
}

fn doctor() -> Result<()> {
    shell::run(program()?.arg("doctor"))
}

/// The program `allfold`, built.
fn program() -> Result<Command> {
    cargo(&["build", "--package", "allfold", "--features", "cli", "--bin", "allfold"])?;
    let mut command = Command::new(shell::programs()?.join("allfold"));
    command.current_dir(shell::root());
    Ok(command)
}

/// What `child` writes until it ends, which must be soon and well.
fn within(limit: Duration, mut child: Child) -> Result<String> {
    let mut output = child.stdout.take().context("its output is not piped")?;
    // Read elsewhere, so that a full pipe does not stop the child.
    let reader = std::thread::spawn(move || std::io::read_to_string(&mut output));
    let end = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > end {
            child.kill()?;
            child.wait()?;
            bail!("not done after {} s", limit.as_secs());
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let said = reader.join().map_err(|_| anyhow::anyhow!("its output could not be read"))??;
    if !status.success() {
        bail!("{status}\n{said}");
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Child {
        Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn a_skipped_step_is_known_by_its_reason() {
        let why = Error::msg(Skipped("no such program"));
        assert!(why.is::<Skipped>());
        assert_eq!(format!("{why:#}"), "SKIPPED: no such program");
        assert!(!anyhow::anyhow!("SKIPPED: in words alone").is::<Skipped>());
    }

    #[test]
    fn a_program_must_end_in_time_and_well() {
        let limit = Duration::from_millis(500);
        assert_eq!(within(limit, shell("echo one")).unwrap(), "one\n");
        assert!(within(limit, shell("exec sleep 9")).unwrap_err().to_string().contains("not done"));
        assert!(within(limit, shell("echo two; exit 1")).unwrap_err().to_string().contains("two"));
    }
}
