//! Findings for people.

use comfy_table::Table;

use super::findings::{Findings, Outcome};
use crate::table;

/// All findings, the summary last.
pub fn of(findings: &Findings) -> String {
    let driver = match (&findings.driver, &findings.no_gpu) {
        (Some(driver), _) => {
            let release = driver.release.as_ref().map_or(String::new(), |release| format!(", release {release}"));
            format!("serves CUDA up to {}{release}", driver.cuda)
        }
        (None, Some(why)) => why.clone(),
        (None, None) => "does not say its version".to_owned(),
    };
    let mut text = format!("allfold {}\n\n", findings.version);
    text += &line("CPU", &format!("{}, {} threads", findings.cpu, findings.cpu_threads));
    text += &line(
        "",
        &format!("two ranks on it: {}", in_words(&findings.cpu_ranks, "µs a call of 64 KB, every result right")),
    );
    let [there, back] = findings.cpu_paths.each_ref().map(|path| in_words(path, "ms"));
    text += &line("", &format!("self-test of both: from the first to the second {there}, back {back}"));
    text += &line("driver", &driver);
    for gpu in &findings.gpus {
        let memory = gpu.memory_bytes as f64 / f64::from(1 << 30);
        let what = format!("{}, {} multiprocessors, {memory:.1} GiB", gpu.name, gpu.multiprocessors);
        text +=
            &line(&format!("GPU {}", gpu.ordinal), &format!("{what}, compute capability {}", gpu.compute_capability));
        text += &line("", &format!("{} at {}", gpu.uuid, gpu.pci));
        let ptx = gpu.ptx.as_ref().map_or("none".to_owned(), |ptx| format!("{} for {}", ptx.version, ptx.target));
        text += &line("", &format!("PTX {ptx}: {}", gpu.ptx_why));
    }
    if let Some(first) = &findings.first_use {
        let ranks: Vec<_> = first.devices.iter().map(u32::to_string).collect();
        let what = format!("a communicator for {} over GPUs {}", first.dtype, ranks.join(","));
        text += &line("first use", &format!("{what}: {}", in_words(&first.ms, "ms, the driver's cache as it is")));
        text += &line(
            "",
            &match &first.cold_ms {
                Some(cold) => in_words(cold, "ms with that cache off"),
                None => "--cold measures it with that cache off".to_owned(),
            },
        );
    }
    if !findings.links.is_empty() {
        text += &format!("\n{}\n", links(findings).trim_fmt());
    }
    if !findings.together.is_empty() {
        text += &format!("\n{}\n", together(findings).trim_fmt());
    }
    text + &format!("\nRuns here: {}\n", findings.summary)
}

fn line(subject: &str, what: &str) -> String {
    format!("{subject:<10} {what}\n")
}

fn in_words(outcome: &Outcome, unit: &str) -> String {
    match outcome {
        Outcome::Works(figure) => format!("{figure:.1} {unit}"),
        Outcome::Wrong(why) => format!("WRONG: {why}"),
        Outcome::Failed(why) => format!("failed: {why}"),
    }
}

fn yes(it_is: bool) -> &'static str {
    if it_is { "yes" } else { "no" }
}

fn links(findings: &Findings) -> Table {
    let mut table = table::new(&["from", "to", "kernels' access", "atomics", "rank", "copy GB/s"]);
    for link in &findings.links {
        let rank = link.performance_rank.map_or("?".to_owned(), |rank| rank.to_string());
        let access = link.error.as_deref().unwrap_or(yes(link.access));
        table.add_row([
            format!("GPU {}", link.from),
            format!("GPU {}", link.to),
            access.to_owned(),
            yes(link.native_atomics).to_owned(),
            rank,
            in_words(&link.copy, "").trim().to_owned(),
        ]);
    }
    table
}

fn together(findings: &Findings) -> Table {
    let mut table = table::new(&["ranks on", "self-test ms", "back ms", "one-shot µs", "two-shot µs"]);
    for pair in &findings.together {
        let [a, b] = pair.gpus;
        // Why not, the last line says.
        let [there, back] = pair.paths.each_ref().map(|path| match path {
            Outcome::Works(ms) => format!("{ms:.1}"),
            Outcome::Wrong(_) => "WRONG".to_owned(),
            Outcome::Failed(_) => "failed".to_owned(),
        });
        let [one_shot, two_shot] =
            [&pair.one_shot, &pair.two_shot].map(|outcome| in_words(outcome, "").trim().to_owned());
        table.add_row([format!("GPU {a}, GPU {b}"), there, back, one_shot, two_shot]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::findings::tests::{findings, two_gpus};
    use super::*;

    #[test]
    fn everything_found_is_said_within_100_columns() {
        let text = of(&two_gpus());
        for part in [
            "CUDA up to 12.8, release 570.86.15",
            "GPU 1      NVIDIA H200, 132 multiprocessors",
            "PTX 7.8 for sm_90",
            "12.0 ms",
            "from the first to the second 0.4 ms, back 0.4 ms",
            "self-test ms",
            "412.0 ms with that cache off",
            "386.4",
            "Runs here: all-reduce over GPUs 0 and 1",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }

    #[test]
    fn without_a_gpu_the_reason_is_there() {
        let mut nothing = findings(vec![], vec![]);
        (nothing.driver, nothing.first_use) = (None, None);
        nothing.links.clear();
        let text = of(&nothing);
        assert!(text.contains("driver     no CUDA driver: libcuda.so.1: cannot open"), "{text}");
        assert!(text.ends_with("Runs here: CPU ranks only: no CUDA driver: libcuda.so.1: cannot open\n"), "{text}");
        assert!(!text.contains("GPU 0"), "{text}");
    }
}
