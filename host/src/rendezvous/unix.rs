//! Ranks that meet at a Unix-domain socket.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, fchmod, flock, open};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

use super::handshake::Claim;
use super::line::check_user;
use super::seat::{Seat, by_its_seat};
use super::secret::nonce;
use super::stream::Listener;
use super::{Rendezvous, RendezvousError, Secret, check};

/// Connections that may wait to be taken, as of the standard library's own listeners.
const BACKLOG: i32 = 128;

/// How long another rank 0 of the same folder may take to get its name: it makes three calls.
const LOCK_LIMIT: Duration = Duration::from_secs(5);

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
        let named = listen(&socket, BACKLOG).map_err(io::Error::from).and_then(|()| take_name(&own, path));
        let file = number(&own);
        fs::remove_file(&own)?;
        named?;
        Ok(Socket { file: file?, path: path.to_path_buf(), listener: socket.into() })
    }
}

/// Gives `own` the name `path` as well. A socket at which nobody listens any more gives way; anything else stays, and is an error.
fn take_name(own: &Path, path: &Path) -> io::Result<()> {
    // One rank 0 of this folder at a time: between a look at a dead socket and its end nobody puts a live one there.
    let _lock = lock_folder(path)?;
    fs::hard_link(own, path).or_else(|error| {
        if error.kind() != ErrorKind::AlreadyExists || !is_socket(path) {
            return Err(error);
        }
        match connect(&SocketAddrUnix::new(path)?) {
            Err(why) if why.kind() == ErrorKind::ConnectionRefused => {
                fs::remove_file(path)?;
                fs::hard_link(own, path)
            }
            _ => Err(error),
        }
    })
}

/// The folder of `path`, locked until the descriptor is dropped: no file is left for that.
fn lock_folder(path: &Path) -> io::Result<OwnedFd> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let begun = Instant::now();
    loop {
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(folder),
            Err(Errno::WOULDBLOCK | Errno::INTR) if begun.elapsed() < LOCK_LIMIT => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error.into()),
        }
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
        // A stranger's is closed, as if nobody had come.
        check_user(&stream).map_err(|_| ErrorKind::WouldBlock)?;
        stream.set_nonblocking(false)?;
        Ok(stream)
    }
}
