//! What a rank's process is told: the variables that `rendezvous::Environment` reads, and PyTorch.

use std::net::TcpListener;

use anyhow::{Context, Result};

const HOST: &str = "127.0.0.1";

/// What all ranks are told.
pub struct Environment {
    world: u32,
    master_port: u16,
    allfold_port: u16,
    secret: String,
}

impl Environment {
    /// For `world` ranks, with ports that are free and a secret that nobody knows.
    pub fn new(world: u32) -> Result<Environment> {
        let mut secret = [0_u8; 32];
        getrandom::fill(&mut secret).context("making a secret")?;
        let secret = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        // Both held until both are known: so they differ.
        let [master, allfold] = [TcpListener::bind((HOST, 0)), TcpListener::bind((HOST, 0))];
        let port = |bound: std::io::Result<TcpListener>| {
            bound.and_then(|listener| Ok((listener.local_addr()?.port(), listener)))
        };
        let ((master_port, _held), (allfold_port, _held_too)) =
            (port(master).context("finding a free port")?, port(allfold).context("finding a free port")?);
        Ok(Environment { world, master_port, allfold_port, secret })
    }

    pub fn world(&self) -> u32 {
        self.world
    }

    /// What `rank` is told.
    pub fn of(&self, rank: u32) -> [(&'static str, String); 8] {
        [
            ("RANK", rank.to_string()),
            ("LOCAL_RANK", rank.to_string()),
            ("WORLD_SIZE", self.world.to_string()),
            ("LOCAL_WORLD_SIZE", self.world.to_string()),
            ("MASTER_ADDR", HOST.to_string()),
            ("MASTER_PORT", self.master_port.to_string()),
            ("ALLFOLD_PORT", self.allfold_port.to_string()),
            ("ALLFOLD_SECRET", self.secret.clone()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use allfold::rendezvous;

    use super::*;

    #[test]
    fn the_library_reads_what_is_told() {
        let environment = Environment::new(4).expect("ports are free");
        assert_ne!(environment.secret, Environment::new(4).expect("ports are free").secret);
        assert_ne!(environment.master_port, environment.allfold_port);
        let told = environment.of(2);
        let find = |name: &str| told.iter().find(|(told, _)| *told == name).map(|(_, value)| value.into());
        let read = rendezvous::Environment::of(find).expect("whole");
        assert_eq!((read.rank, read.world, read.local_rank), (2, 4, 2));
        assert_eq!((read.host.as_str(), read.port), (HOST, environment.allfold_port));
        assert_eq!(read.secret, rendezvous::Secret::new(&environment.secret));
    }
}
