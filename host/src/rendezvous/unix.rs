//! Ranks that meet at a Unix-domain socket.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{Mode, OFlags, fchmod, fstat, open};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

use super::handshake::Claim;
use super::line::check_user;
use super::seat::{Seat, by_its_seat};
use super::secret::nonce;
use super::stream::Listener;
use super::{Rendezvous, RendezvousError, Secret, check};

/// Connections that may wait to be taken, as of the standard library's own listeners.
const BACKLOG: i32 = 128;

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
            let own_name =
                format!(".{:08x}", nonce()?.iter().take(4).fold(0_u32, |name, &byte| name << 8 | u32::from(byte)));
            let socket = Socket::listen(path, &own_name).map_err(|error| refused(path, &error))?;
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
    match error.kind() == ErrorKind::AlreadyExists {
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
    /// `own_name` is nobody else's in that folder. Whoever sees the socket at `path` sees one that listens, and one of several
    /// processes gets that name.
    fn listen(path: &Path, own_name: &str) -> io::Result<Socket> {
        // Others are to come by this name.
        SocketAddrUnix::new(path)?;
        let own = path.with_file_name(own_name);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // Its file will be for this user alone, from the start.
        fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        bind(&socket, &SocketAddrUnix::new(&own)?)?;
        let named = listen(&socket, BACKLOG).map_err(io::Error::from).and_then(|()| {
            fs::hard_link(&own, path).or_else(|error| match error.kind() == ErrorKind::AlreadyExists {
                true if remove_dead(path, &own.with_extension("old"))? => fs::hard_link(&own, path),
                _ => Err(error),
            })
        });
        let file = number(&own);
        fs::remove_file(&own)?;
        named?;
        Ok(Socket { file: file?, path: path.to_path_buf(), listener: socket.into() })
    }
}

/// Removes a socket at which nobody listens any more; `aside` is a name that nobody has. Whether it has. Anything but a socket
/// refuses otherwise, and stays.
fn remove_dead(path: &Path, aside: &Path) -> io::Result<bool> {
    // Held, so that its number is no other's meanwhile.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(file) = open(path, flags, Mode::empty()) else { return Ok(true) };
    let there = connect(&SocketAddrUnix::new(path)?);
    if !there.is_err_and(|why| why.kind() == ErrorKind::ConnectionRefused) || !is_socket(path) {
        return Ok(false);
    }
    // Another rank 0 may be just as far, or one step ahead, and there already.
    match fs::rename(path, aside) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        moved => moved?,
    }
    let stat = fstat(&file)?;
    let dead = number(aside)? == (stat.st_dev, stat.st_ino);
    let back = if dead { Ok(()) } else { fs::hard_link(aside, path) };
    fs::remove_file(aside)?;
    back.map(|()| dead)
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
        // A stranger's is closed, as if nobody had come.
        check_user(&stream).map_err(|_| ErrorKind::WouldBlock)?;
        stream.set_nonblocking(false)?;
        Ok(stream)
    }
}
