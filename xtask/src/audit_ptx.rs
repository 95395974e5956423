//! `audit-ptx [--check]`: host/ptx by the rules of [`crate::audit`], and the table of what is in it.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, anyhow, bail};

use crate::audit::ptxas::{self, Ptxas};
use crate::audit::table::{self, Usages};
use crate::audit::{Failure, rules};
use crate::packs;
use crate::shell;

/// Audits the text of host/ptx, and leaves it in target/ptx/text; then writes or compares host/ptx/AUDIT.md.
///
/// # Errors
///
/// When a kernel breaks a rule, there is no `ptxas`, or `check` finds another table.
pub fn run(check: bool) -> Result<()> {
    let dir = packs::committed();
    let text = packs::leave_text(&packs::unpack(&packs::read(&dir)?)?)?;
    let Audited { table: fresh, ptxas } = audit(&text)?;
    let file = dir.join("AUDIT.md");
    if !check {
        if ptxas.is_none() {
            bail!("host/ptx/AUDIT.md is not written without ptxas");
        }
        return shell::write(&file, &fresh);
    }
    let committed = shell::text(&file)?;
    let same_version = ptxas.is_some() && table::ptxas_in(&committed) == ptxas.as_deref();
    if !same_version {
        let (theirs, ours) = (table::ptxas_in(&committed).unwrap_or("none"), ptxas.as_deref().unwrap_or("none"));
        println!("audit-ptx: the table's registers are not compared: its ptxas is {theirs}, here is {ours}");
    }
    let compared = |table: &str| if same_version { table.to_string() } else { table::without_ptxas(table) };
    let (old, new) = (compared(&committed), compared(&fresh));
    if old != new {
        let line = old.lines().zip(new.lines()).take_while(|(old, new)| old == new).count() + 1;
        bail!("host/ptx/AUDIT.md:{line} is out of date\nmend it with: cargo xtask audit-ptx");
    }
    Ok(())
}

/// What an audit without failures gives.
pub struct Audited {
    /// The table.
    table: String,
    /// The version of the `ptxas` that took part, if one did.
    ptxas: Option<String>,
}

/// Audits every PTX file under `dir`.
///
/// # Errors
///
/// When a kernel breaks a rule, there is no `ptxas`, or there is nothing to audit.
pub fn audit(dir: &Path) -> Result<Audited> {
    let ptxas = Ptxas::find()?;
    match &ptxas {
        Some(ptxas) => println!("audit-ptx: ptxas {}", ptxas.version),
        None => println!("SKIPPED: ptxas (registers, stack, spills, assembly errors), because {}=1", ptxas::SKIP),
    }
    let mut files = Vec::new();
    for path in shell::files(dir, "ptx")? {
        files.push((path.strip_prefix(dir)?.to_string_lossy().into_owned(), shell::text(&path)?, Usages::new()));
    }
    let mut failures: Vec<Failure> = files.iter().flat_map(|(file, text, _)| rules::check(file, text)).collect();
    if let Some(ptxas) = &ptxas {
        failures.extend(assemble(ptxas, &mut files)?);
    }
    if files.is_empty() {
        bail!("no PTX in {}\nmend it with: cargo xtask build-ptx", dir.display());
    }
    let shown = dir.strip_prefix(shell::root()).unwrap_or(dir).display();
    failures.iter().for_each(|failure| println!("{shown}/{failure}"));
    if !failures.is_empty() {
        bail!("{} failures in {} files of {shown}", failures.len(), files.len());
    }
    println!("audit-ptx: {} files, nothing found", files.len());
    let version = ptxas.map(|ptxas| ptxas.version);
    Ok(Audited { table: table::render(&files, version.as_deref()), ptxas: version })
}

/// Assembles all files for all architectures that may run them, on all cores: the failures, and in `files` the usages.
fn assemble(ptxas: &Ptxas, files: &mut [(String, String, Usages)]) -> Result<Vec<Failure>> {
    let mut jobs = Vec::new();
    for (file, (_, text, _)) in files.iter().enumerate() {
        jobs.extend(ptxas::ARCHITECTURES.into_iter().filter(|sm| *sm >= oldest(text)).map(|sm| (file, sm)));
    }
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<_>> {
        let mut verdicts = Vec::new();
        while let Some(&(file, sm)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (name, text, _) = &files[file];
            verdicts.push((file, sm, ptxas.assemble(name, text, sm)?));
        }
        Ok(verdicts)
    };
    let cores = std::thread::available_parallelism()?.get();
    let verdicts: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().map_err(|_| anyhow!("a worker panicked"))?).collect()
    });
    let mut failures = Vec::new();
    for verdict in verdicts {
        for (file, sm, verdict) in verdict? {
            failures.extend(verdict.failures);
            files[file].2.insert(sm, verdict.usage);
        }
    }
    failures.sort();
    Ok(failures)
}

/// The architecture that a module names: it runs on this one and on newer ones.
fn oldest(text: &str) -> u32 {
    let target = text.lines().find_map(|line| line.strip_prefix(".target sm_"));
    target.and_then(|sm| sm.trim().parse().ok()).unwrap_or(0)
}
