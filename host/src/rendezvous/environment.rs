//! Which rank a process is, as its environment says: what `allfold launch`, `torchrun` and Slurm set.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::time::Instant;

use super::{MAX_WORLD, RendezvousError, Secret, Tcp};

/// How far from `MASTER_PORT` the ranks meet where `ALLFOLD_PORT` does not say.
const PORT_OFFSET: u16 = 4000;

/// Which rank this process is, and where it meets the others.
///
/// | | `allfold launch`, `torchrun` | Slurm | |
/// |---|---|---|---|
/// | rank | `RANK` | `SLURM_PROCID` | |
/// | ranks | `WORLD_SIZE` | `SLURM_NTASKS` | 1 to 8, all on this machine |
/// | rank on its machine | `LOCAL_RANK` | `SLURM_LOCALID` | |
/// | host | `ALLFOLD_ADDR` | `ALLFOLD_ADDR` | a name or an address of this machine; or 127.0.0.1 |
/// | port | `ALLFOLD_PORT` | `ALLFOLD_PORT` | or `MASTER_PORT` and 4000 more |
/// | secret | `ALLFOLD_SECRET` | `ALLFOLD_SECRET` | or the job, by `TORCHELASTIC_RUN_ID`, or `SLURM_JOB_ID` and `SLURM_STEP_ID`; or none |
///
/// The name of a job is no secret: it only keeps jobs apart that meet at one port by chance. `MASTER_ADDR` is not read: all ranks
/// are on this machine, and other machines need not come.
///
/// Slurm's are read where neither `RANK` nor `WORLD_SIZE` is set. `MASTER_PORT` itself belongs to PyTorch's store, which
/// `torchrun` or rank 0 has there, and its neighbours are often other jobs' `MASTER_PORT`: so the ranks meet at 4000 above
/// it, or below it where there is no such port. Where that one is in use, `ALLFOLD_PORT` names another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Environment {
    /// This rank.
    pub rank: u32,
    /// Ranks of the group.
    pub world: u32,
    /// This rank among those of its machine: which GPU is its own.
    pub local_rank: u32,
    /// Where rank 0 listens.
    pub host: String,
    /// At which port.
    pub port: u16,
    /// What the ranks know, and nobody else.
    pub secret: Secret,
}

/// Why the environment does not say which rank this is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvironmentError {
    /// A variable that is needed and not set.
    #[error(
        "{name} is not set: allfold launch and torchrun set all that is needed; with Slurm, MASTER_PORT is to be set by hand"
    )]
    NotSet {
        /// The variable.
        name: &'static str,
    },
    /// A variable that is not a number in its range.
    #[error("{name} is {value:?}: a number from {least} to {most} is needed")]
    NotANumber {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// The least that it may be.
        least: u32,
        /// The most that it may be.
        most: u32,
    },
    /// A host that is none.
    #[error("{name} is {value:?}: a host's name or address is needed")]
    NotAHost {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// Ranks on other machines, which this library does not reach.
    #[error("{name} is {value}: all ranks must be on one machine")]
    OtherMachines {
        /// The variable that says so.
        name: &'static str,
        /// Its value.
        value: String,
    },
}

/// The names of one launcher's variables.
struct Names {
    rank: &'static str,
    world: &'static str,
    local_rank: &'static str,
    /// What the ranks of a job have in common, and of no other.
    job: &'static [&'static str],
}

const TORCHRUN: Names =
    Names { rank: "RANK", world: "WORLD_SIZE", local_rank: "LOCAL_RANK", job: &["TORCHELASTIC_RUN_ID"] };
const SLURM: Names = Names {
    rank: "SLURM_PROCID",
    world: "SLURM_NTASKS",
    local_rank: "SLURM_LOCALID",
    job: &["SLURM_JOB_ID", "SLURM_STEP_ID"],
};

impl Environment {
    /// From the variables of this process.
    ///
    /// # Errors
    /// [`EnvironmentError`], which names the variable.
    pub fn read() -> Result<Environment, EnvironmentError> {
        Environment::of(|name| std::env::var_os(name))
    }

    /// From the variables that `variable` knows.
    ///
    /// # Errors
    /// [`EnvironmentError`], which names the variable.
    pub fn of(variable: impl Fn(&str) -> Option<OsString>) -> Result<Environment, EnvironmentError> {
        let from = Variables(variable);
        let any = |names: &Names| [names.rank, names.world].iter().any(|name| from.text(name).is_some());
        let slurm = !any(&TORCHRUN) && any(&SLURM);
        let names = if slurm { SLURM } else { TORCHRUN };
        let world = from.number(names.world, 1, MAX_WORLD)?;
        let rank = from.number(names.rank, 0, world - 1)?;
        let local_rank = from.number(names.local_rank, 0, world - 1)?;
        let (name, here) = if slurm { ("SLURM_STEP_NUM_NODES", 1) } else { ("LOCAL_WORLD_SIZE", world) };
        if let Some(value) = from.text(name).filter(|value| *value != here.to_string()) {
            return Err(EnvironmentError::OtherMachines { name, value });
        }
        let host = from.text("ALLFOLD_ADDR").unwrap_or_else(|| Ipv4Addr::LOCALHOST.to_string());
        // A second port, or a blank, would only show when the name is looked up.
        let odd = |letter: char| letter.is_whitespace() || letter.is_control() || "[]/@".contains(letter);
        if host.is_empty() || host.contains(odd) {
            return Err(EnvironmentError::NotAHost { name: "ALLFOLD_ADDR", value: host });
        }
        let most = u32::from(u16::MAX);
        let port = match from.text("ALLFOLD_PORT") {
            Some(_) => from.number("ALLFOLD_PORT", 1, most)? as u16,
            None => beside(from.number("MASTER_PORT", 1, most)? as u16),
        };
        let job = names.job.iter().filter_map(|name| from.text(name)).collect::<Vec<_>>().join(".");
        let secret = (from.0)("ALLFOLD_SECRET").unwrap_or(job.into());
        Ok(Environment { rank, world, local_rank, host, port, secret: Secret::new(secret.as_encoded_bytes()) })
    }

    /// Where rank 0 listens, as [`Tcp::join`] takes it.
    pub fn address(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// Meets the others.
    ///
    /// # Errors
    /// As [`Tcp::join`].
    pub fn join(&self, deadline: Instant) -> Result<Tcp, RendezvousError> {
        Tcp::join(&self.address(), self.rank, self.world, &self.secret, deadline)
    }
}

/// The port for us of a job that has `master`.
fn beside(master: u16) -> u16 {
    master.checked_add(PORT_OFFSET).unwrap_or_else(|| master - PORT_OFFSET)
}

struct Variables<F>(F);

impl<F: Fn(&str) -> Option<OsString>> Variables<F> {
    /// A variable; what is not Unicode in it is shown as a sign for that, which no number and no host has.
    fn text(&self, name: &str) -> Option<String> {
        (self.0)(name).map(|value| value.to_string_lossy().into_owned())
    }

    fn needed(&self, name: &'static str) -> Result<String, EnvironmentError> {
        self.text(name).ok_or(EnvironmentError::NotSet { name })
    }

    fn number(&self, name: &'static str, least: u32, most: u32) -> Result<u32, EnvironmentError> {
        let value = self.needed(name)?;
        let number = value.parse().ok().filter(|number| (least..=most).contains(number));
        number.ok_or(EnvironmentError::NotANumber { name, value, least, most })
    }
}

#[cfg(test)]
mod tests {
    use super::EnvironmentError as E;
    use super::*;

    fn read(line: &str) -> Result<Environment, EnvironmentError> {
        let pairs: Vec<_> = line.split_whitespace().filter_map(|word| word.split_once('=')).collect();
        Environment::of(|name| pairs.iter().rev().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
    }

    const TORCHRUN: &str = "RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 MASTER_PORT=29500";
    const SLURM: &str = "SLURM_PROCID=2 SLURM_NTASKS=3 SLURM_LOCALID=2 MASTER_PORT=65000";

    #[test]
    fn each_launcher_is_understood() {
        let read_1 = read(TORCHRUN).expect("whole");
        assert_eq!((read_1.rank, read_1.world, read_1.local_rank), (1, 4, 1));
        assert_eq!((read_1.address().as_str(), read_1.secret), ("127.0.0.1:33500", Secret::default()));
        let read_2 = read(SLURM).expect("whole");
        assert_eq!((read_2.rank, read_2.world, read_2.local_rank), (2, 3, 2));
        assert_eq!(read_2.address(), "127.0.0.1:61000");
        let elsewhere = read(&format!("{SLURM} ALLFOLD_ADDR=::1 MASTER_ADDR=node7")).expect("whole");
        assert_eq!(elsewhere.address(), "[::1]:61000");
        // torchrun under Slurm: Slurm counts torchruns.
        assert_eq!(read(&format!("{SLURM} {TORCHRUN}")).expect("whole").world, 4);
        let own = read(&format!("{TORCHRUN} ALLFOLD_PORT=7 ALLFOLD_SECRET=x LOCAL_WORLD_SIZE=4")).expect("whole");
        assert_eq!((own.port, own.secret), (7, Secret::new("x")));
    }

    #[test]
    fn each_variable_that_is_missing_is_named() {
        for (line, from) in [(TORCHRUN, "torchrun"), (SLURM, "Slurm")] {
            for gone in line.split_whitespace() {
                let gone_name = gone.split('=').next().expect("a name");
                match read(&line.replace(gone, "")) {
                    Err(E::NotSet { name }) => assert_eq!(name, gone_name, "{from}"),
                    other => panic!("{from} without {gone}: {other:?}"),
                }
            }
        }
        assert_eq!(read("").expect_err("nothing"), E::NotSet { name: "WORLD_SIZE" });
    }

    #[test]
    fn each_variable_that_is_wrong_is_named() {
        for (wrong, name, least, most) in [
            ("RANK=4", "RANK", 0, 3),
            ("RANK=-1", "RANK", 0, 3),
            ("RANK=one", "RANK", 0, 3),
            ("RANK=", "RANK", 0, 3),
            ("WORLD_SIZE=0", "WORLD_SIZE", 1, 8),
            ("WORLD_SIZE=9", "WORLD_SIZE", 1, 8),
            ("WORLD_SIZE=99999999999", "WORLD_SIZE", 1, 8),
            ("LOCAL_RANK=1.5", "LOCAL_RANK", 0, 3),
            ("MASTER_PORT=65536", "MASTER_PORT", 1, 65535),
            ("MASTER_PORT=0", "MASTER_PORT", 1, 65535),
            ("ALLFOLD_PORT=x", "ALLFOLD_PORT", 1, 65535),
        ] {
            let value = wrong.split('=').nth(1).expect("a value").to_string();
            let error = read(&format!("{TORCHRUN} {wrong}")).expect_err(wrong);
            assert_eq!(error, E::NotANumber { name, value, least, most });
        }
        let (name, value) = ("ALLFOLD_ADDR", String::new());
        assert_eq!(read(&format!("{TORCHRUN} ALLFOLD_ADDR=")).expect_err("empty"), E::NotAHost { name, value });
        let spread = read(&format!("{TORCHRUN} LOCAL_WORLD_SIZE=2")).expect_err("two machines");
        assert_eq!(spread, E::OtherMachines { name: "LOCAL_WORLD_SIZE", value: "2".into() });
        let spread = read(&format!("{SLURM} SLURM_STEP_NUM_NODES=2")).expect_err("two machines");
        assert_eq!(spread, E::OtherMachines { name: "SLURM_STEP_NUM_NODES", value: "2".into() });
    }

    #[test]
    fn jobs_are_told_from_each_other_by_name_and_a_secret_comes_first() {
        let secret = |line: &str, more: &str| read(&format!("{line} {more}")).expect("whole").secret;
        assert_eq!(secret(TORCHRUN, "TORCHELASTIC_RUN_ID=7 SLURM_JOB_ID=8"), Secret::new("7"));
        assert_eq!(secret(SLURM, "SLURM_JOB_ID=8 SLURM_STEP_ID=0 TORCHELASTIC_RUN_ID=7"), Secret::new("8.0"));
        assert_ne!(secret(SLURM, "SLURM_JOB_ID=8 SLURM_STEP_ID=1"), secret(SLURM, "SLURM_JOB_ID=8 SLURM_STEP_ID=0"));
        assert_eq!(secret(TORCHRUN, "TORCHELASTIC_RUN_ID=7 ALLFOLD_SECRET=x"), Secret::new("x"));
    }

    #[test]
    fn every_master_port_has_another_beside_it() {
        for master in 1..=u16::MAX {
            assert!(beside(master) > 0 && beside(master) != master, "{master}");
        }
    }
}
