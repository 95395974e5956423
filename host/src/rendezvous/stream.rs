//! A connection and where it comes from, TCP or Unix; and reads and writes that end at a deadline.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A connection.
pub(super) trait Stream: Read + Write + Send + Sized + 'static {
    /// How long a read may take; `None`: for ever.
    fn limit_read(&self, limit: Option<Duration>) -> io::Result<()>;
    /// How long a write may take.
    fn limit_write(&self, limit: Duration) -> io::Result<()>;
    /// The same connection for another thread.
    fn twin(&self) -> io::Result<Self>;
    /// Ends it for whoever uses it.
    fn shut(&self, how: Shutdown);
}

/// Where connections come in. It does not block.
pub(super) trait Listener: AsFd + Send + 'static {
    type Stream: Stream;
    fn accept(&self) -> io::Result<Self::Stream>;
}

macro_rules! stream {
    ($stream:ty) => {
        impl Stream for $stream {
            fn limit_read(&self, limit: Option<Duration>) -> io::Result<()> {
                self.set_read_timeout(limit)
            }

            fn limit_write(&self, limit: Duration) -> io::Result<()> {
                self.set_write_timeout(Some(limit))
            }

            fn twin(&self) -> io::Result<Self> {
                self.try_clone()
            }

            fn shut(&self, how: Shutdown) {
                // It fails where the other side has ended it before.
                let _ = self.shutdown(how);
            }
        }
    };
}

stream!(TcpStream);
stream!(UnixStream);

impl Listener for TcpListener {
    type Stream = TcpStream;

    fn accept(&self) -> io::Result<TcpStream> {
        let (stream, _) = TcpListener::accept(self)?;
        stream.set_nonblocking(false)?;
        // Small messages, each waited for.
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// Why a read or a write did not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// The other side has closed the connection, or it broke.
    Closed,
    /// The deadline has passed.
    Late,
}

/// Fills `buffer`, and reads not a byte more. `None`: whenever it comes.
pub(super) fn read_by(stream: &mut impl Stream, buffer: &mut [u8], deadline: Option<Instant>) -> Result<(), Cut> {
    let mut filled = 0;
    while filled < buffer.len() {
        let limit = deadline.map(left).transpose()?;
        stream.limit_read(limit).map_err(|_| Cut::Closed)?;
        filled += some(stream.read(&mut buffer[filled..]))?;
    }
    Ok(())
}

/// Writes all of `bytes`.
pub(super) fn write_by(stream: &mut impl Stream, bytes: &[u8], deadline: Instant) -> Result<(), Cut> {
    let mut written = 0;
    while written < bytes.len() {
        stream.limit_write(left(deadline)?).map_err(|_| Cut::Closed)?;
        written += some(stream.write(&bytes[written..]))?;
    }
    Ok(())
}

/// The time left, as the system takes it: not nothing, which would mean for ever.
fn left(deadline: Instant) -> Result<Duration, Cut> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(Cut::Late) } else { Ok(left.max(Duration::from_millis(1))) }
}

/// The bytes of a read or a write; 0 where it is to be tried again.
fn some(done: io::Result<usize>) -> Result<usize, Cut> {
    match done {
        Ok(0) => Err(Cut::Closed),
        Ok(count) => Ok(count),
        // The caller looks at the clock.
        Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::Interrupted].contains(&error.kind()) => {
            Ok(0)
        }
        Err(_) => Err(Cut::Closed),
    }
}
