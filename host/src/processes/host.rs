//! Which host this is, and whose process: what ranks must have in common so that one can use what another hands it.

use std::fs;
use std::io::ErrorKind;

use crate::error::{Error, Result};

/// What identifies this host and this process's place on it, by name.
///
/// A descriptor can be handed over within one kernel and one network namespace, where abstract sockets live; and the peer's
/// user, which is checked then, is told in numbers of one user namespace and one process namespace.
pub(crate) fn identity() -> Result<Vec<(&'static str, String)>> {
    let namespace = |path| match fs::read_link(path) {
        Ok(link) => Ok(link.to_string_lossy().into_owned()),
        // A kernel without such namespaces: all processes are in one.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok("none".to_owned()),
        Err(error) => Err(error),
    };
    let host = || -> std::io::Result<_> {
        Ok(vec![
            ("the host, by its boot", fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned()),
            ("the network namespace", namespace("/proc/self/ns/net")?),
            ("the user namespace", namespace("/proc/self/ns/user")?),
            ("the process namespace", namespace("/proc/self/ns/pid")?),
            ("the user", rustix::process::geteuid().as_raw().to_string()),
        ])
    };
    host().map_err(|source| Error::Host { what: "reading which host this is from /proc", source })
}
