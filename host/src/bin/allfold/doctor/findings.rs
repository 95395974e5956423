//! What was found, as data, and the one line that sums it up.

use serde::Serialize;

/// A probe's figure, or in one line why there is none.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It worked; the unit is that of the probe.
    Works(f64),
    /// It ran, and what came out was wrong.
    Wrong(String),
    /// It could not be done.
    Failed(String),
}

impl Outcome {
    pub fn works(&self) -> bool {
        matches!(self, Outcome::Works(_))
    }
}

#[derive(Debug, Serialize)]
pub struct CudaDriver {
    /// The newest CUDA that it serves.
    pub cuda: String,
    /// NVIDIA's own number.
    pub release: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct Ptx {
    pub target: &'static str,
    pub version: &'static str,
}

#[derive(Debug, Serialize)]
pub struct Gpu {
    pub ordinal: u32,
    pub name: String,
    pub compute_capability: String,
    pub multiprocessors: u32,
    pub memory_bytes: u64,
    pub uuid: String,
    pub pci: String,
    /// The PTX that it gets; none if it is too old.
    pub ptx: Option<Ptx>,
    pub ptx_why: String,
}

/// From one GPU to another.
#[derive(Debug, Serialize)]
pub struct Link {
    pub from: u32,
    pub to: u32,
    /// Whether kernels on `from` may use memory of `to`.
    pub access: bool,
    pub native_atomics: bool,
    /// 0 is the fastest kind; none if the driver did not say.
    pub performance_rank: Option<i32>,
    /// What the driver said instead.
    pub error: Option<String>,
    /// A copy, in GB/s.
    pub copy: Outcome,
}

/// Two ranks, a GPU each or one for both.
#[derive(Debug, Serialize)]
pub struct Together {
    pub gpus: [u32; 2],
    /// The self-test of what the first does for the second, and the other way round, in ms for both.
    pub paths: [Outcome; 2],
    /// All-reduce, in µs a call.
    pub one_shot: Outcome,
    pub two_shot: Outcome,
}

/// Making the first communicator in a process, driver and contexts up already.
#[derive(Debug, Serialize)]
pub struct FirstUse {
    /// The GPU of each rank.
    pub devices: Vec<u32>,
    pub dtype: &'static str,
    pub protocol: &'static str,
    /// Milliseconds, with whatever the driver had in its cache.
    pub ms: Outcome,
    /// Milliseconds with that cache off, where asked for.
    pub cold_ms: Option<Outcome>,
}

#[derive(Debug, Serialize)]
pub struct Findings {
    pub version: &'static str,
    pub cpu: String,
    pub cpu_threads: usize,
    /// All-reduce between two CPU ranks, in µs a call.
    pub cpu_ranks: Outcome,
    /// The self-test between them, as of two GPUs.
    pub cpu_paths: [Outcome; 2],
    pub driver: Option<CudaDriver>,
    /// Why there is no GPU.
    pub no_gpu: Option<String>,
    pub gpus: Vec<Gpu>,
    pub links: Vec<Link>,
    pub together: Vec<Together>,
    pub first_use: Option<FirstUse>,
    pub summary: String,
}

impl Findings {
    /// Whether something ran and gave a wrong result.
    pub fn any_wrong(&self) -> bool {
        let outcomes = self.together.iter().flat_map(Together::outcomes);
        outcomes
            .chain(self.links.iter().map(|link| &link.copy))
            .chain([&self.cpu_ranks])
            .chain(&self.cpu_paths)
            .any(|o| matches!(o, Outcome::Wrong(_)))
    }

    /// With its summary: what would run here, and what stops the rest.
    pub fn summed_up(mut self) -> Findings {
        self.summary = format!("{}{}", self.what_runs(), self.what_stops_the_cpu());
        self
    }

    fn what_stops_the_cpu(&self) -> String {
        let [there, back] = &self.cpu_paths;
        why_not([there, back, &self.cpu_ranks]).map_or(String::new(), |why| format!("; CPU ranks do not work: {why}"))
    }

    fn what_runs(&self) -> String {
        if let Some(why) = &self.no_gpu {
            return format!("CPU ranks only: {why}");
        }
        let too_old = self.gpus.iter().filter(|gpu| gpu.ptx.is_none());
        let mut stops: Vec<String> =
            too_old.map(|gpu| format!("GPU {} is too old, {}", gpu.ordinal, gpu.ptx_why)).collect();
        for pair in self.together.iter().filter(|pair| !pair.works()) {
            let why = why_not(pair.outcomes()).unwrap_or("it works");
            stops.push(format!("GPU {} with {}: {why}", pair.gpus[0], pair.gpus[1]));
        }
        let stops = if stops.is_empty() { String::new() } else { format!(", but not: {}", stops.join("; ")) };
        let working: Vec<_> = self.together.iter().filter(|pair| pair.works()).map(|pair| pair.gpus).collect();
        let usable: Vec<u32> = self.gpus.iter().filter(|gpu| gpu.ptx.is_some()).map(|gpu| gpu.ordinal).collect();
        match (&usable[..], working.len()) {
            (_, 0) => format!("CPU ranks only{stops}"),
            ([single], _) => format!("several ranks on GPU {single}, or CPU ranks{stops}"),
            (many, pairs) if pairs == self.together.len() => {
                format!("all-reduce over GPUs {}, several ranks on each of them, or CPU ranks{stops}", list(many))
            }
            _ => {
                let pairs = working.iter().map(|[a, b]| format!("{a}+{b}")).collect::<Vec<_>>().join(", ");
                format!("all-reduce over GPUs {pairs}, or CPU ranks{stops}")
            }
        }
    }
}

impl Together {
    fn outcomes(&self) -> [&Outcome; 4] {
        let [there, back] = &self.paths;
        [there, back, &self.one_shot, &self.two_shot]
    }

    fn works(&self) -> bool {
        self.outcomes().into_iter().all(Outcome::works)
    }
}

/// Why not all of this works: what is wrong before what could not be done.
fn why_not<const N: usize>(outcomes: [&Outcome; N]) -> Option<&str> {
    let why = |outcome| match outcome {
        &Outcome::Works(_) => None,
        Outcome::Wrong(why) => Some((0, why)),
        Outcome::Failed(why) => Some((1, why)),
    };
    let first = outcomes.into_iter().filter_map(why).min_by_key(|&(order, _)| order);
    first.map(|(_, why)| why.as_str())
}

/// `0, 1 and 2`.
fn list(ordinals: &[u32]) -> String {
    let words: Vec<_> = ordinals.iter().map(u32::to_string).collect();
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => "none".to_owned(),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    fn gpu(ordinal: u32, ptx: bool) -> Gpu {
        Gpu {
            ordinal,
            name: "NVIDIA H200".into(),
            compute_capability: if ptx { "9.0" } else { "7.5" }.into(),
            multiprocessors: 132,
            memory_bytes: 150_000_000_000,
            uuid: "2a000102-0304-0506-0708-090a0b0c0dff".into(),
            pci: "0000:05:00.0".into(),
            ptx: ptx.then_some(Ptx { target: "sm_90", version: "7.8" }),
            ptx_why: if ptx { "the newest" } else { "none runs on 7.5" }.into(),
        }
    }

    fn pair(a: u32, b: u32, works: bool) -> Together {
        let outcome = || if works { Outcome::Works(9.5) } else { Outcome::Failed("no peer access".into()) };
        Together { gpus: [a, b], paths: [outcome(), outcome()], one_shot: outcome(), two_shot: outcome() }
    }

    pub fn findings(gpus: Vec<Gpu>, together: Vec<Together>) -> Findings {
        let link = |from, to| Link {
            from,
            to,
            access: true,
            native_atomics: true,
            performance_rank: Some(0),
            error: None,
            copy: Outcome::Works(386.4),
        };
        Findings {
            version: "0.1.0",
            cpu: "a CPU".into(),
            cpu_threads: 2,
            cpu_ranks: Outcome::Works(50.0),
            cpu_paths: [Outcome::Works(0.4), Outcome::Works(0.4)],
            driver: Some(CudaDriver { cuda: "12.8".into(), release: Some("570.86.15".into()) }),
            no_gpu: gpus.is_empty().then(|| "no CUDA driver: libcuda.so.1: cannot open".to_owned()),
            gpus,
            links: vec![link(0, 1), link(1, 0)],
            together,
            first_use: Some(FirstUse {
                devices: vec![0, 1],
                dtype: "bf16",
                protocol: "allfold",
                ms: Outcome::Works(12.0),
                cold_ms: Some(Outcome::Works(412.0)),
            }),
            summary: String::new(),
        }
        .summed_up()
    }

    pub fn two_gpus() -> Findings {
        findings(vec![gpu(0, true), gpu(1, true)], vec![pair(0, 1, true)])
    }

    #[test]
    fn the_summary_says_what_runs_and_what_stops_the_rest() {
        assert_eq!(findings(vec![], vec![]).summary, "CPU ranks only: no CUDA driver: libcuda.so.1: cannot open");
        assert_eq!(
            findings(vec![gpu(0, false)], vec![]).summary,
            "CPU ranks only, but not: GPU 0 is too old, none runs on 7.5"
        );
        let single = findings(vec![gpu(0, true)], vec![pair(0, 0, true)]).summary;
        assert_eq!(single, "several ranks on GPU 0, or CPU ranks");
        assert_eq!(two_gpus().summary, "all-reduce over GPUs 0 and 1, several ranks on each of them, or CPU ranks");
        let three = vec![pair(0, 1, true), pair(0, 2, false), pair(1, 2, true)];
        let three = findings(vec![gpu(0, true), gpu(1, true), gpu(2, true)], three).summary;
        assert_eq!(three, "all-reduce over GPUs 0+1, 1+2, or CPU ranks, but not: GPU 0 with 2: no peer access");
    }

    #[test]
    fn a_wrong_result_is_not_the_same_as_none() {
        let mut findings = two_gpus();
        assert!(!findings.any_wrong());
        findings.links[0].copy = Outcome::Failed("too slow".into());
        assert!(!findings.any_wrong());
        findings.links[0].copy = Outcome::Wrong("3 bytes".into());
        assert!(findings.any_wrong());
    }

    #[test]
    fn b92_b93_a_pair_whose_self_test_fails_one_way_does_not_work_and_the_reason_is_that_of_the_way() {
        let mut findings = two_gpus();
        findings.together[0].paths =
            [Outcome::Failed("not known".into()), Outcome::Wrong("a flag; look at ACS".into())];
        assert!(findings.any_wrong());
        let findings = findings.summed_up();
        assert_eq!(findings.summary, "CPU ranks only, but not: GPU 0 with 1: a flag; look at ACS");
        let mut findings = two_gpus();
        findings.cpu_paths[0] = Outcome::Wrong("memory".into());
        assert!(findings.any_wrong());
        let summary = findings.summed_up().summary;
        assert!(summary.ends_with("; CPU ranks do not work: memory"), "{summary}");
    }

    #[test]
    fn json_keeps_figures_and_reasons_apart() {
        let json = serde_json::to_value(two_gpus()).expect("serialises");
        assert_eq!(json["links"][0]["copy"]["works"], 386.4);
        assert_eq!(json["first_use"]["cold_ms"]["works"], 412.0);
        assert_eq!(json["gpus"][1]["ptx"]["target"], "sm_90");
        assert!(json["no_gpu"].is_null());
    }
}
