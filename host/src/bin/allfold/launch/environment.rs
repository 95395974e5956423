//! What a rank's process is told: the variables that `rendezvous::Environment` reads, and PyTorch.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use anyhow::{Context, Result};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};

const HOST: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// What all ranks are told.
pub struct Environment {
    world: u32,
    master_port: Port,
    allfold_port: Port,
    secret: String,
}

impl Environment {
    /// For `world` ranks, with ports that are free as long as this lives, and a secret that nobody knows.
    pub fn new(world: u32) -> Result<Environment> {
        let mut secret = [0_u8; 32];
        getrandom::fill(&mut secret).context("making a secret")?;
        let secret = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let port = || Port::new().context("finding a free port");
        Ok(Environment { world, master_port: port()?, allfold_port: port()?, secret })
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
            ("MASTER_PORT", self.master_port.number.to_string()),
            ("ALLFOLD_PORT", self.allfold_port.number.to_string()),
            ("ALLFOLD_SECRET", self.secret.clone()),
        ]
    }
}

/// A port of [`HOST`] that the system gives to nobody as long as this lives: a socket has it that does not listen. Who asks for
/// this port can listen there all the same, as rank 0 does: both let others have the address, too (`SO_REUSEADDR`).
///
/// Rank 0 is not left the listener itself: the program may be another that starts it, and closes what it does not know.
struct Port {
    number: u16,
    _held: OwnedFd,
}

impl Port {
    fn new() -> rustix::io::Result<Port> {
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &SocketAddrV4::new(HOST, 0))?;
        let number = SocketAddrV4::try_from(getsockname(&socket)?)?.port();
        Ok(Port { number, _held: socket })
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use allfold::rendezvous;
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn the_library_reads_what_is_told() {
        let environment = Environment::new(4).expect("ports are free");
        assert_ne!(environment.secret, Environment::new(4).expect("ports are free").secret);
        assert_ne!(environment.master_port.number, environment.allfold_port.number);
        let told = environment.of(2);
        let find = |name: &str| told.iter().find(|(told, _)| *told == name).map(|(_, value)| value.into());
        let read = rendezvous::Environment::of(find).expect("whole");
        assert_eq!((read.rank, read.world, read.local_rank), (2, 4, 2));
        assert_eq!((read.host.as_str(), read.port), ("127.0.0.1", environment.allfold_port.number));
        assert_eq!(read.secret, rendezvous::Secret::new(&environment.secret));
    }
    #[test]
    fn a_port_is_held_and_rank_0_can_have_it() {
        let port = Port::new().expect("ports are free");
        let bare = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("a socket");
        let address = SocketAddrV4::new(HOST, port.number);
        assert_eq!(bind(&bare, &address), Err(Errno::ADDRINUSE), "it is held");
        TcpListener::bind(address).expect("rank 0 listens");
        TcpListener::bind((Ipv4Addr::UNSPECIFIED, port.number)).expect("PyTorch's store listens");
    }
}
