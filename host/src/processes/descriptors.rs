//! File descriptors of each rank to all others: over Unix sockets beside the rendezvous, which only carries bytes.
//!
//! Each rank listens at an abstract address, which leaves no file, and tells the others address and token. Each stranger of
//! the network namespace can see the address and connect; whoever does not send the token, or is another user's process, is
//! turned away, and what it sent is closed.
//!
//! No wait is needed but those of the meeting: when all ranks say that they have sent, all that they sent lies here.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    recvmsg, sendmsg, socket_with,
};

use super::Meeting;
use crate::error::{Error, Result};
use crate::rendezvous::{Reader, Writer, check_user};

/// Bytes of a token, and of an address's random part.
const TOKEN_BYTES: usize = 16;
/// Connections that may wait to be taken, all ranks' and strangers': as many as the system lets wait. Nobody is let in before
/// all ranks have sent.
const BACKLOG: i32 = i32::MAX;
/// Between two attempts at what there was no room for.
const PAUSE: Duration = Duration::from_millis(1);
/// Descriptors that all ranks have sent and not taken yet: the kernel allows a user as many as a process may have open, 1024 as a rule.
const MOST_UNDER_WAY: usize = 512;
/// Descriptors of one message.
const MOST_DESCRIPTORS: usize = 64;

type Token = [u8; TOKEN_BYTES];
/// The listener's token, and the sender's rank.
type Message = [u8; TOKEN_BYTES + 4];

/// Gives `own`, any number of them, to all other ranks, and takes theirs: in rank order, with none at this rank's own place.
///
/// # Errors
/// [`Error::Host`], [`Error::PeerGone`], and [`Error::RankFailed`] on the others; [`Error::Rendezvous`].
pub(crate) fn exchange(meeting: &Meeting<'_>, own: &[BorrowedFd<'_>]) -> Result<Vec<Vec<OwnedFd>>> {
    let (inbox, words) = meeting.step(Inbox::open(BACKLOG), |inbox| inbox.tell(own.len()))?;
    let told = (0..).zip(&words).map(|(rank, word)| {
        let failed = || Error::RankFailed { rank, why: "it has told no address".to_owned() };
        Told::decode(word).ok_or_else(failed)
    });
    let told = meeting.done(told.collect::<Result<Vec<_>>>())?;
    let world = told.len();
    let at_once = (MOST_UNDER_WAY / (world * world)).max(1);
    let most = told.iter().map(|told| told.count as usize).max().unwrap_or(0);
    let mut taken: Vec<_> = told.iter().map(|_| Vec::new()).collect();
    for first in (0..most).step_by(at_once) {
        let next = own.get(first..).unwrap_or_default();
        let next = &next[..next.len().min(at_once)];
        let sent = meeting.peers().try_for_each(|peer| {
            send(&told[peer as usize], meeting.rank(), next, meeting.deadline()).map_err(|error| match error {
                // It told an address, and has left since.
                Errno::CONNREFUSED | Errno::CONNRESET | Errno::PIPE => Error::PeerGone { rank: peer },
                error => host("sending a descriptor", error),
            })
        });
        meeting.done(sent)?;
        meeting.done(inbox.take_all(meeting, &told, first + at_once, &mut taken))?;
    }
    Ok(taken)
}

/// What a rank tells of its inbox, and of what it sends.
pub(super) struct Told {
    address: Token,
    token: Token,
    /// Descriptors that it sends.
    count: u32,
}

impl Told {
    pub(super) fn encode(&self) -> Vec<u8> {
        Writer::default().bytes(&self.address).bytes(&self.token).u32(self.count).0
    }

    pub(super) fn decode(word: &[u8]) -> Option<Told> {
        let mut from = Reader(word);
        let (address, token, count) = (from.array()?, from.array()?, from.u32()?);
        from.end(Told { address, token, count })
    }
}

/// Where a rank gets what others send it.
struct Inbox {
    listener: OwnedFd,
    address: Token,
    token: Token,
}

impl Inbox {
    fn open(backlog: i32) -> Result<Inbox> {
        let open = || {
            let random = random()?;
            let (address, token) = (random[0], random[1]);
            let listener = socket()?;
            bind(&listener, &unix_address(&address)?)?;
            listen(&listener, backlog)?;
            Ok(Inbox { listener, address, token })
        };
        open().map_err(|error| host("opening a socket for descriptors", error))
    }

    fn tell(&self, count: usize) -> Vec<u8> {
        Told { address: self.address, token: self.token, count: count as u32 }.encode()
    }

    /// What all other ranks have sent, until each one's are `most`, or all that it has.
    fn take_all(&self, meeting: &Meeting<'_>, told: &[Told], most: usize, taken: &mut [Vec<OwnedFd>]) -> Result<()> {
        let wanted = |rank: u32| (told[rank as usize].count as usize).min(most);
        let missing = |taken: &[Vec<OwnedFd>]| meeting.peers().find(|&peer| taken[peer as usize].len() < wanted(peer));
        while let Some(missing) = missing(taken) {
            let connection = match accept_with(&self.listener, FLAGS) {
                Ok(connection) => connection,
                // It is gone already, or a signal came.
                Err(Errno::CONNABORTED | Errno::INTR) => continue,
                Err(Errno::AGAIN) => {
                    return Err(Error::RankFailed { rank: missing, why: "its descriptor did not come".to_owned() });
                }
                Err(error) => return Err(host("taking a connection", error)),
            };
            let receive = || receive(&connection, &self.token).map_err(|error| host("receiving a descriptor", error));
            while let Some((rank, descriptors)) = receive()? {
                // Each peer has one place, and fills it once.
                if let Some(place) = taken.get_mut(rank as usize) {
                    let room = wanted(rank).saturating_sub(place.len());
                    place.extend(descriptors.into_iter().take(room));
                }
            }
        }
        Ok(())
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
    let failed = |error: getrandom::Error| error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error);
    getrandom::fill(&mut random).map_err(failed)?;
    Ok(bytemuck::cast(random))
}

/// Tries again what the kernel has no room for at the moment: it says so now and then where much else runs.
fn patiently<T>(attempt: impl Fn() -> rustix::io::Result<T>, deadline: Instant) -> rustix::io::Result<T> {
    loop {
        match attempt() {
            Err(Errno::AGAIN | Errno::TOOMANYREFS | Errno::INTR) if Instant::now() < deadline => {
                std::thread::sleep(PAUSE)
            }
            done => return done,
        }
    }
}

/// Sends `descriptors` in the name of `rank` to whoever told `to`. It does not wait for the other side, but for room.
fn send(to: &Told, rank: u32, descriptors: &[BorrowedFd<'_>], deadline: Instant) -> rustix::io::Result<()> {
    if descriptors.is_empty() {
        return Ok(());
    }
    let socket = socket()?;
    let address = unix_address(&to.address)?;
    patiently(|| connect(&socket, &address), deadline)?;
    check_user(&socket)?;
    let mut message: Message = [0; size_of::<Message>()];
    message[..TOKEN_BYTES].copy_from_slice(&to.token);
    message[TOKEN_BYTES..].copy_from_slice(&rank.to_le_bytes());
    for descriptors in descriptors.chunks(MOST_DESCRIPTORS) {
        let attempt = || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            if !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
                return Err(Errno::NOBUFS);
            }
            sendmsg(&socket, &[IoSlice::new(&message)], &mut ancillary, SendFlags::NOSIGNAL)
        };
        patiently(attempt, deadline)?;
    }
    Ok(())
}

/// The rank that sent a message over `connection`, and its descriptors; `None` from a stranger, and when there are no more.
///
/// # Errors
/// A rank sent descriptors, and this process cannot have so many more.
fn receive(connection: &OwnedFd, token: &Token) -> rustix::io::Result<Option<(u32, Vec<OwnedFd>)>> {
    let mut message: Message = [0; size_of::<Message>()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
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
    // The kernel closes what there is no room for, and says so by this.
    if descriptors.is_empty() || received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(Errno::MFILE);
    }
    let [.., a, b, c, d] = message;
    Ok(Some((u32::from_le_bytes([a, b, c, d]), descriptors)))
}

fn host(what: &'static str, error: Errno) -> Error {
    Error::Host { what, source: error.into() }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::rendezvous::local;

    #[test]
    fn strangers_at_the_door_are_waited_for_and_turned_away() {
        let inbox = Inbox::open(8).expect("a socket");
        let told = Told::decode(&inbox.tell(1)).expect("it was told just now");
        let address = unix_address(&told.address).expect("a name");
        // As many as there is room for; then the kernel says that there is none.
        let mut strangers = Vec::new();
        loop {
            let stranger = socket().expect("a socket");
            match connect(&stranger, &address) {
                Ok(()) if strangers.len() < 100 => strangers.push(stranger),
                Ok(()) => panic!("this kernel has room for everybody"),
                Err(error) => break assert_eq!(error, Errno::AGAIN),
            }
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        let sent = std::thread::scope(|scope| {
            let sender = scope.spawn(|| send(&told, 1, &[inbox.listener.as_fd()], deadline));
            std::thread::sleep(Duration::from_millis(20));
            assert!(!sender.is_finished(), "it cannot have come in");
            for _ in &strangers {
                drop(accept_with(&inbox.listener, FLAGS).expect("a stranger"));
            }
            sender.join().expect("no panic")
        });
        sent.expect("there is room now");
        let seats = local(2).expect("two ranks");
        let meeting = Meeting::new(&seats[0], Duration::from_secs(20)).expect("a rank");
        let none = Told::decode(&inbox.tell(0)).expect("as above");
        let mut taken = [Vec::new(), Vec::new()];
        inbox.take_all(&meeting, &[none, told], 1, &mut taken).expect("it has come");
        assert_eq!((taken[0].len(), taken[1].len()), (0, 1));
    }

    #[test]
    fn more_descriptors_than_a_message_takes_arrive_in_order() {
        const COUNT: usize = 2 * MOST_DESCRIPTORS + 3;
        let inbox = Inbox::open(BACKLOG).expect("a socket");
        let told = Told::decode(&inbox.tell(COUNT)).expect("it was told just now");
        let pipes: Vec<_> = (0..COUNT).map(|_| std::io::pipe().expect("a pipe")).collect();
        let ends: Vec<_> = pipes.iter().map(|(_, write)| write.as_fd()).collect();
        send(&told, 1, &ends, Instant::now() + Duration::from_secs(20)).expect("there is room");
        let seats = local(2).expect("two ranks");
        let meeting = Meeting::new(&seats[0], Duration::from_secs(20)).expect("a rank");
        let none = Told::decode(&inbox.tell(0)).expect("as above");
        let mut taken = [Vec::new(), Vec::new()];
        inbox.take_all(&meeting, &[none, told], COUNT, &mut taken).expect("all have come");
        assert_eq!(taken[1].len(), COUNT);
        for (number, (mut read, _)) in pipes.into_iter().enumerate() {
            rustix::io::write(&taken[1][number], &[number as u8]).expect("the pipe is open");
            let mut byte = [0];
            std::io::Read::read_exact(&mut read, &mut byte).expect("it was written");
            assert_eq!(byte, [number as u8]);
        }
    }
}
