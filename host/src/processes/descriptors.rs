//! A file descriptor of each rank to all others: over Unix sockets beside the rendezvous, which only carries bytes.
//!
//! Each rank listens at an abstract address, which leaves no file, and tells the others address and token. Each stranger of
//! the network namespace can see the address and connect; whoever does not send the token, or is another user's process, is
//! turned away, and what it sent is closed.
//!
//! No wait is needed but those of the meeting: when all ranks say that they have sent, all that they sent lies here.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    recvmsg, sendmsg, socket_with,
};
use rustix::rand::{GetRandomFlags, getrandom};

use super::Meeting;
use crate::error::{Error, Result};
use crate::rendezvous::check_user;

/// Bytes of a token, and of an address's random part.
const TOKEN_BYTES: usize = 16;
/// Connections that may wait to be taken: all ranks', and some strangers'.
const BACKLOG: i32 = 128;

type Token = [u8; TOKEN_BYTES];
/// The listener's token, and the sender's rank.
type Message = [u8; TOKEN_BYTES + 4];

/// Gives `own` to all other ranks, and takes theirs: in rank order, with none at this rank's own place.
///
/// # Errors
/// [`Error::Host`], [`Error::PeerGone`], and [`Error::RankFailed`] on the others; [`Error::Rendezvous`].
pub(crate) fn exchange(meeting: &Meeting<'_>, own: BorrowedFd<'_>) -> Result<Vec<Option<OwnedFd>>> {
    let (inbox, told) = meeting.step(Inbox::open(), Inbox::tell)?;
    let sent = meeting.peers().try_for_each(|peer| {
        let failed = |_| Error::RankFailed { rank: peer, why: "it has told no address".to_owned() };
        let told = told[peer as usize].as_slice().try_into().map_err(failed)?;
        send(told, meeting.rank(), own).map_err(|error| match error {
            // It told an address, and has left since.
            Errno::CONNREFUSED | Errno::CONNRESET | Errno::PIPE => Error::PeerGone { rank: peer },
            error => host("sending a descriptor", error),
        })
    });
    meeting.done(sent)?;
    meeting.done(inbox.take_all(meeting))
}

/// Where a rank gets what others send it.
struct Inbox {
    listener: OwnedFd,
    address: Token,
    token: Token,
}

impl Inbox {
    fn open() -> Result<Inbox> {
        let open = || {
            let random = random()?;
            let (address, token) = (random[0], random[1]);
            let listener = socket()?;
            bind(&listener, &unix_address(&address)?)?;
            listen(&listener, BACKLOG)?;
            Ok(Inbox { listener, address, token })
        };
        open().map_err(|error| host("opening a socket for descriptors", error))
    }

    fn tell(&self) -> Vec<u8> {
        [self.address, self.token].concat()
    }

    /// What all other ranks have sent.
    fn take_all(&self, meeting: &Meeting<'_>) -> Result<Vec<Option<OwnedFd>>> {
        let mut taken: Vec<_> = (0..meeting.members().world).map(|_| None).collect();
        while let Some(missing) = meeting.peers().find(|&peer| taken[peer as usize].is_none()) {
            let connection = match accept_with(&self.listener, FLAGS) {
                Ok(connection) => connection,
                // It is gone already, or a signal came.
                Err(Errno::CONNABORTED | Errno::INTR) => continue,
                Err(Errno::AGAIN) => {
                    return Err(Error::RankFailed { rank: missing, why: "its descriptor did not come".to_owned() });
                }
                Err(error) => return Err(host("taking a connection", error)),
            };
            let received = receive(&connection, &self.token).map_err(|error| host("receiving a descriptor", error))?;
            let Some((rank, descriptor)) = received else { continue };
            // Each peer has one place, and fills it once.
            if let Some(place @ None) = taken.get_mut(rank as usize) {
                *place = Some(descriptor);
            }
        }
        Ok(taken)
    }
}

/// Of every socket here: none of them waits, and none is left to programs that this process starts.
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

fn socket() -> rustix::io::Result<OwnedFd> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None)
}

fn unix_address(address: &Token) -> rustix::io::Result<SocketAddrUnix> {
    SocketAddrUnix::new_abstract_name(format!("allfold-{:032x}", u128::from_be_bytes(*address)).as_bytes())
}

/// Two tokens that nobody can guess.
fn random() -> rustix::io::Result<[Token; 2]> {
    let mut random = [0; 2 * TOKEN_BYTES];
    let mut filled = 0;
    while filled < random.len() {
        match getrandom(&mut random[filled..], GetRandomFlags::empty()) {
            Ok(bytes) => filled += bytes,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytemuck::cast(random))
}

/// Sends `descriptor` in the name of `rank` to whoever told `address` and token. It does not wait for the other side.
fn send(told: [u8; 2 * TOKEN_BYTES], rank: u32, descriptor: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let [address, token]: [Token; 2] = bytemuck::cast(told);
    let socket = socket()?;
    connect(&socket, &unix_address(&address)?)?;
    check_user(&socket)?;
    let mut message: Message = [0; size_of::<Message>()];
    message[..TOKEN_BYTES].copy_from_slice(&token);
    message[TOKEN_BYTES..].copy_from_slice(&rank.to_le_bytes());
    let descriptors = [descriptor];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(Errno::NOBUFS);
    }
    sendmsg(&socket, &[IoSlice::new(&message)], &mut ancillary, SendFlags::NOSIGNAL).map(drop)
}

/// The rank that sent over `connection`, and its descriptor; `None` from a stranger.
///
/// # Errors
/// A rank sent a descriptor, and this process cannot have one more.
fn receive(connection: &OwnedFd, token: &Token) -> rustix::io::Result<Option<(u32, OwnedFd)>> {
    let mut message: Message = [0; size_of::<Message>()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(connection, &mut [IoSliceMut::new(&mut message)], &mut ancillary, RecvFlags::CMSG_CLOEXEC);
    // Taken first: whatever was sent with a message is closed here or used.
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(sent) = message {
            descriptors.extend(sent);
        }
    }
    // A stranger that has sent nothing yet is not waited for.
    let Ok(received) = received else { return Ok(None) };
    // In this order: only whoever has the token is known to be a process whose number means something here.
    if received.bytes != message.len() || message[..TOKEN_BYTES] != *token || check_user(connection).is_err() {
        return Ok(None);
    }
    let [.., a, b, c, d] = message;
    match (descriptors.pop(), received.flags.contains(ReturnFlags::CTRUNC)) {
        (Some(descriptor), false) => Ok(Some((u32::from_le_bytes([a, b, c, d]), descriptor))),
        // The kernel closes what there is no room for, and says so by this.
        (_, true) | (None, false) => Err(Errno::MFILE),
    }
}

fn host(what: &'static str, error: Errno) -> Error {
    Error::Host { what, source: error.into() }
}
