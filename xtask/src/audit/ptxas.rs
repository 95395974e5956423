//! `ptxas`: found in a CUDA toolkit, or fetched with pip; and what it says of a module.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};

use super::Failure;
use super::parse::Module;
use crate::debian;
use crate::shell;

/// Set to 1: do without.
pub const SKIP: &str = "ALLFOLD_SKIP_PTXAS";

/// The version is fixed so that the register counts of the committed table can be compared.
const PACKAGE: &str = "nvidia-cuda-nvcc==13.5.37";

/// Architectures to assemble for. PTX of an older one runs on newer ones.
pub const ARCHITECTURES: [u32; 3] = [80, 90, 100];

/// An assembler.
pub struct Ptxas {
    /// As it names itself: `13.5.37`.
    pub version: String,
    program: PathBuf,
}

/// What a kernel takes of a multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Registers a thread.
    pub registers: u32,
    /// Hardware barriers a block.
    pub barriers: u32,
}

/// What `ptxas` says of one file for one architecture.
pub struct Verdict {
    /// By kernel.
    pub usage: BTreeMap<String, Usage>,
    /// Errors, stack frames, spills.
    pub failures: Vec<Failure>,
}

impl Ptxas {
    /// One that knows every architecture of [`ARCHITECTURES`]: a toolkit's, or pip's; `None` where it is to be skipped.
    ///
    /// # Errors
    ///
    /// When there is none and none can be had; names the ways out.
    pub fn find() -> Result<Option<Ptxas>> {
        if env::var_os(SKIP).is_some_and(|skip| skip == "1") {
            return Ok(None);
        }
        // One search at a time: tests are threads, and two of them must not fetch into one folder.
        static SEARCH: Mutex<()> = Mutex::new(());
        let _searching = SEARCH.lock();
        let fetched = shell::target()?.join("ptxas");
        let toolkits = ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(env::var_os).map(PathBuf::from);
        let mut programs: Vec<_> =
            toolkits.chain([PathBuf::from("/usr/local/cuda")]).map(|dir| dir.join("bin/ptxas")).collect();
        programs.extend(shell::on_path("ptxas"));
        programs.extend(program_in(&fetched));
        if let Some(ptxas) = programs.iter().find_map(|program| Ptxas::probe(program).ok()) {
            return Ok(Some(ptxas));
        }
        println!("audit-ptx: no ptxas here; fetching {PACKAGE} into {} …", fetched.display());
        let ptxas = fetch(&fetched).with_context(|| {
            format!(
                "no ptxas: install a CUDA toolkit (12.8 or later), or python3 with pip so that {PACKAGE} can be \
                 fetched, or set {SKIP}=1 to leave out registers, stack, spills and assembly errors"
            )
        })?;
        Ok(Some(ptxas))
    }

    /// Assembles `text`, the PTX of `file`, for `sm_<sm>`.
    ///
    /// # Errors
    ///
    /// When `ptxas` cannot be run; what it finds wrong in the text is in the answer.
    pub fn assemble(&self, file: &str, text: &str, sm: u32) -> Result<Verdict> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let input = shell::target()?.join(format!("ptxas-input/{}-{number}.ptx", std::process::id()));
        shell::write(&input, text)?;
        let mut ptxas = Command::new(&self.program);
        ptxas.args(["-v", &format!("-arch=sm_{sm}"), "-o", "/dev/null"]).arg(&input);
        let output = ptxas.output().with_context(|| format!("cannot start {}", shell::line(&ptxas)))?;
        fs::remove_file(&input)?;
        let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        Ok(verdict(file, text, sm, &said, output.status.success()))
    }

    fn probe(program: &Path) -> Result<Ptxas> {
        let said = shell::read(Command::new(program).arg("--version"))?;
        let version =
            said.lines().find_map(|line| line.split_once(", V")).context("it names no version")?.1.to_string();
        let help = shell::read(Command::new(program).arg("--help"))?;
        for sm in ARCHITECTURES {
            if !help.contains(&format!("'sm_{sm}'")) {
                bail!("ptxas {version} does not know sm_{sm}");
            }
        }
        Ok(Ptxas { version, program: program.to_path_buf() })
    }
}

/// Reads what `ptxas -v` wrote.
fn verdict(file: &str, text: &str, sm: u32, said: &str, success: bool) -> Verdict {
    let module = Module::parse(text);
    let fail = |line: usize, kernel: &str, what: String| Failure {
        file: file.to_string(),
        line,
        kernel: kernel.to_string(),
        what: format!("ptxas for sm_{sm}: {what}"),
    };
    let line_of = |name: &str| module.kernels.iter().find(|kernel| kernel.name == name).map_or(1, |kernel| kernel.line);
    let mut verdict = Verdict { usage: BTreeMap::new(), failures: Vec::new() };
    let mut kernel = String::new();
    for line in said.lines() {
        if let Some((_, name)) = line.split_once("Compiling entry function '") {
            kernel = name.split('\'').next().unwrap_or_default().to_string();
        } else if line.contains("bytes stack frame") {
            let frame_bytes = line.split_whitespace().next().and_then(|bytes| bytes.parse::<u32>().ok());
            let most_bytes = if is_bounded(text, line_of(&kernel)) { MOST_FRAME_BYTES } else { 0 };
            if frame_bytes.is_none_or(|bytes| bytes > most_bytes) {
                verdict.failures.push(fail(line_of(&kernel), &kernel, line.trim().to_string()));
            }
        } else if let Some((_, used)) = line.split_once(": Used ") {
            let number = |unit: &str| {
                let part = used.split(", ").find(|part| part.contains(unit))?;
                part.split_whitespace().find_map(|word| word.parse().ok())
            };
            let usage =
                Usage { registers: number("registers").unwrap_or(0), barriers: number("barriers").unwrap_or(0) };
            verdict.usage.insert(kernel.clone(), usage);
        } else if let Some((at, what)) = line.split_once("; error") {
            let line = at.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(1);
            verdict.failures.push(fail(line, module.kernel_at(line), what.trim_start_matches([' ', ':']).to_string()));
        }
    }
    if !success && verdict.failures.is_empty() {
        verdict.failures.push(fail(1, super::parse::OUTSIDE, said.trim().to_string()));
    }
    verdict
}

/// Bytes a thread that a kernel may keep in memory which has no more registers than its text grants: for what it needs again much
/// later.
const MOST_FRAME_BYTES: u32 = 24;

/// Whether the text grants the kernel whose head is at `line` only so many registers.
fn is_bounded(text: &str, line: usize) -> bool {
    text.lines().skip(line - 1).take_while(|line| !line.starts_with('{')).any(|line| line.starts_with(".maxnreg"))
}

fn program_in(dir: &Path) -> Option<PathBuf> {
    let toolkits = fs::read_dir(dir.join("nvidia")).ok()?.flatten();
    toolkits.map(|entry| entry.path().join("bin/ptxas")).find(|program| program.is_file())
}

fn fetch(at: &Path) -> Result<Ptxas> {
    let download = |python: &mut Command| {
        shell::remove_dir(at)?;
        fs::create_dir_all(at)?;
        python.args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest"]);
        shell::read(python.arg(at).arg(PACKAGE)).map(|_| ())
    };
    let mut python = PathBuf::from("python3");
    if let Err(no_pip) = download(&mut Command::new(&python)) {
        // Debian's python3 comes without pip, and some systems without python3: neither needs an installation.
        let unpacked = at.with_extension("pip");
        debian::unpack(&unpacked, &["python3", "python3-pip-whl"], &[], |_| false).context(no_pip)?;
        let own = unpacked.join("usr/bin/python3");
        if own.is_file() {
            python = own;
        }
        let wheels = shell::files(&unpacked.join("usr/share/python-wheels"), "whl")?;
        let pip =
            wheels.iter().find(|wheel| wheel.to_string_lossy().contains("/pip-")).context("no pip in its package")?;
        let mut command = Command::new(&python);
        debian::set_libraries(&mut command, &python);
        download(command.env("PYTHONPATH", pip))?;
    }
    for wheel in shell::files(at, "whl")? {
        let mut unzip = Command::new(&python);
        debian::set_libraries(&mut unzip, &python);
        shell::read(unzip.args(["-m", "zipfile", "-e"]).arg(&wheel).arg(at))?;
        fs::remove_file(&wheel)?;
    }
    let program = program_in(at).context("the package holds no ptxas")?;
    // The zip module does not restore modes.
    shell::read(Command::new("chmod").arg("+x").arg(&program))?;
    Ptxas::probe(&program)
}
