//! Ranks that meet at a Unix-domain socket.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use super::handshake::Claim;
use super::seat::{Seat, by_its_seat};
use super::stream::Listener;
use super::{Rendezvous, RendezvousError, Secret, check};

/// A rank of a group of processes that meet at a Unix-domain socket. When it is dropped the rank has left; with rank 0
/// goes the socket's file.
pub struct Unix(Seat<UnixStream>);

by_its_seat!(Unix);

impl Unix {
    /// Rank `rank` of `world` meets the others at the socket `path`: rank 0 makes it, for its own user alone, and the
    /// others connect, in any order. A file that a dead rank 0 left there is replaced.
    ///
    /// # Errors
    /// As [`Tcp::join`](super::Tcp::join).
    pub fn join(
        path: impl AsRef<Path>,
        rank: u32,
        world: u32,
        secret: &Secret,
        deadline: Instant,
    ) -> Result<Unix, RendezvousError> {
        check(rank, world)?;
        let path = path.as_ref();
        if rank == 0 {
            let socket = Socket::listen(path).map_err(|error| refused(path, &error))?;
            return Seat::host(socket, world, secret, deadline).map(Unix);
        }
        Unix::claim(path, &Claim::new(rank, world), secret, deadline)
    }

    /// A rank that may claim what is not so.
    pub(super) fn claim(
        path: &Path,
        claim: &Claim,
        secret: &Secret,
        deadline: Instant,
    ) -> Result<Unix, RendezvousError> {
        let address = path.display().to_string();
        Seat::join(&address, |_left| connect(&SocketAddrUnix::new(path)?), claim, secret, deadline).map(Unix)
    }
}

fn refused(path: &Path, error: &io::Error) -> RendezvousError {
    let address = path.display().to_string();
    match error.kind() == ErrorKind::AddrInUse {
        true => RendezvousError::InUse { address },
        false => RendezvousError::Listen { address, why: error.to_string() },
    }
}

/// Does not block: where too many wait at the door, it fails, and is tried again.
pub(super) fn connect(address: &SocketAddrUnix) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, address)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// A listener whose file goes with it.
struct Socket {
    listener: UnixListener,
    path: PathBuf,
    /// The file's device and number: another's file at the same path is left alone.
    file: (u64, u64),
}

impl Socket {
    fn listen(path: &Path) -> io::Result<Socket> {
        let listener = UnixListener::bind(path).or_else(|error| {
            // A file that nobody listens at any more. Anything but a socket refuses otherwise, and stays.
            let there = SocketAddrUnix::new(path).map_err(Into::into).and_then(|address| connect(&address));
            let dead = there.is_err_and(|why| why.kind() == ErrorKind::ConnectionRefused);
            if error.kind() != ErrorKind::AddrInUse || !dead || !is_socket(path) {
                return Err(error);
            }
            fs::remove_file(path)?;
            UnixListener::bind(path)
        })?;
        let socket = Socket { file: number(path)?, path: path.to_path_buf(), listener };
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        socket.listener.set_nonblocking(true)?;
        Ok(socket)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if number(&self.path).is_ok_and(|file| file == self.file) {
            // Somebody may have been quicker.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn number(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Listener for Socket {
    type Stream = UnixStream;

    fn accept(&self) -> io::Result<UnixStream> {
        let (stream, _) = self.listener.accept()?;
        stream.set_nonblocking(false)?;
        Ok(stream)
    }
}
