//! What is known to be the cause where ranks do not reach each other.

use std::time::Duration;

use allfold_kernels::protocol::abi::Algorithm;

use super::judge::{Fault, Symptom};

/// What ranks run on, and whose they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct On {
    /// The GPU of each rank, by what tells it from others; none: they are CPU ranks.
    pub(crate) gpus: Vec<String>,
    /// Whether ranks are in processes of their own.
    pub(crate) processes: bool,
}

impl On {
    /// How long a rank waits in a call of the self-test.
    pub(super) fn limit(&self) -> Duration {
        match self.gpus[..] {
            // Its threads share the processor with all else that runs.
            [] => Duration::from_secs(5),
            _ => Duration::from_secs(2),
        }
    }

    /// Where to look.
    pub(super) fn hint(&self, fault: &Fault) -> String {
        let gpu = |rank: u32| self.gpus.get(rank as usize);
        let apart = fault.pairs.iter().any(|&(from, to)| gpu(from) != gpu(to));
        let mut hint = match (self.gpus.is_empty(), apart) {
            (true, _) if self.processes => {
                "ranks share memory by descriptors (memfd): look for a sandbox that emulates it, and for faulty memory".to_owned()
            }
            (true, _) => "ranks are threads of this process: look for faulty memory".to_owned(),
            (false, false) => {
                "the ranks share a GPU: look for errors (Xid) in the kernel's log, and try another driver".to_owned()
            }
            (false, true) => {
                "the driver lets these GPUs access each other, and what their kernels store or load does not come through: on \
                 bare metal, turn off PCIe ACS (access control services) and translation by the IOMMU (iommu=pt, or off in the \
                 firmware); in a virtual machine, its host has to allow peer-to-peer; then look for errors (Xid) in the \
                 kernel's log, and try another driver"
                    .to_owned()
            }
        };
        if self.processes && !self.gpus.is_empty() {
            hint += "; ranks in containers need one IPC, process and network namespace, and the same driver mounted";
        }
        match fault.symptom {
            Symptom::Silent => hint += "; or the machine is so busy that a rank did not come to run",
            Symptom::Wrong { .. } => {}
        }
        hint
    }
}

impl Fault {
    /// What was seen, in a call by `algorithm`.
    pub(super) fn what(&self, algorithm: Algorithm, limit: Duration) -> String {
        let name = algorithm.name();
        match self.symptom {
            Symptom::Silent if algorithm.pushes() => format!("data of a {name} did not come within {limit:.1?}"),
            Symptom::Silent => format!("a flag or data of a {name} did not come within {limit:.1?}"),
            Symptom::Wrong { elems: 0 } => format!("what ranks tell each other in a {name} came wrong"),
            Symptom::Wrong { elems } => format!("{elems} elements of all outputs of a {name} were wrong"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b92_b93_a_hint_says_where_to_look() {
        let on = |gpus: &[&str], processes| On { gpus: gpus.iter().map(|&gpu| gpu.to_owned()).collect(), processes };
        let fault = |symptom| Fault { pairs: vec![(0, 1)], symptom };
        let (silent, wrong) = (fault(Symptom::Silent), fault(Symptom::Wrong { elems: 3 }));
        for (on, words) in [
            (on(&[], false), &["threads"][..]),
            (on(&[], true), &["memfd", "sandbox"]),
            (on(&["a", "b"], false), &["ACS", "IOMMU", "iommu=pt", "virtual machine", "driver"]),
            (on(&["a", "b"], true), &["ACS", "IOMMU", "containers", "IPC"]),
            (on(&["a", "a"], false), &["Xid", "share a GPU"]),
        ] {
            for fault in [&silent, &wrong] {
                let hint = on.hint(fault);
                assert!(words.iter().all(|word| hint.contains(word)), "{on:?}: {hint}");
                assert_eq!(hint.contains("busy"), fault.symptom == Symptom::Silent, "{hint}");
            }
        }
        // Of three ranks on two GPUs.
        let of_one = Fault { pairs: vec![(1, 2)], ..silent.clone() };
        assert!(on(&["a", "b", "b"], false).hint(&of_one).contains("share a GPU"));
        let limit = on(&["a"], false).limit();
        assert_eq!(silent.what(Algorithm::OneShot, limit), "a flag or data of a one_shot did not come within 2.0s");
        assert_eq!(wrong.what(Algorithm::TwoShot, limit), "3 elements of all outputs of a two_shot were wrong");
    }
}
