//! How a rank and rank 0 come to know each other. The form of these messages is the same in every version of the protocol.
//!
//! ```text
//! rank -> hub   opening    "allfold" 0, protocol u32, nonce 32
//! hub -> rank   opening    the same, with the hub's own
//! rank -> hub   hello      rank u32, world u32, time left in ms u32, version 32, proof 32
//! hub -> rank   welcome    1, proof 32; or 0, and 32 bytes that say nothing: the proof was wrong
//! ```
//!
//! A proof is about all that was said before it. The rank proves first: whoever only knows the address learns nothing to
//! try secrets on. Whoever listens in place of rank 0 does: a rank's proof.

use std::time::Instant;

use super::RendezvousError;
use super::bytes::{Reader, Writer};
use super::frame::left_ms;
use super::secret::{NONCE_BYTES, PROOF_BYTES, Prover, Secret, nonce};
use super::stream::{Cut, Stream, read_by, write_by};

/// The version of what is sent. It counts up with every change of [`super::frame`].
pub(super) const PROTOCOL: u32 = 1;

/// The version of this crate.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(super) const MAGIC: [u8; 8] = *b"allfold\0";
const VERSION_BYTES: usize = 32;
pub(super) const OPENING_BYTES: usize = MAGIC.len() + 4 + NONCE_BYTES;
pub(super) const CLAIM_BYTES: usize = 12 + VERSION_BYTES;
pub(super) const HELLO_BYTES: usize = CLAIM_BYTES + PROOF_BYTES;
pub(super) const WELCOME_BYTES: usize = 1 + PROOF_BYTES;

/// What a rank says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) rank: u32,
    pub(super) world: u32,
    pub(super) protocol: u32,
    pub(super) version: String,
}

impl Claim {
    /// The claim of a process that runs this code.
    pub(super) fn new(rank: u32, world: u32) -> Claim {
        Claim { rank, world, protocol: PROTOCOL, version: VERSION.to_string() }
    }

    /// Whether it can be a rank of the group that rank 0 makes.
    pub(super) fn agrees(&self, world: u32) -> Result<(), RendezvousError> {
        let &Claim { rank, world: theirs, protocol, ref version } = self;
        if protocol != PROTOCOL {
            return Err(RendezvousError::Protocol { rank, theirs: protocol, ours: PROTOCOL });
        }
        if version != VERSION {
            return Err(RendezvousError::Version { rank, theirs: version.clone(), ours: VERSION.to_string() });
        }
        if theirs != world {
            return Err(RendezvousError::World { rank, theirs, ours: world });
        }
        if rank >= world {
            return Err(RendezvousError::NoSuchRank { rank, world });
        }
        Ok(())
    }
}

/// Why a handshake did not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Cut(Cut),
    /// The other side speaks something else.
    NotAllfold,
    /// The other side does not know the secret, or says so of us.
    Secret,
}

impl From<Cut> for Refused {
    fn from(cut: Cut) -> Refused {
        Refused::Cut(cut)
    }
}

fn opening(protocol: u32, nonce: &[u8; NONCE_BYTES]) -> Vec<u8> {
    Writer::default().bytes(&MAGIC).u32(protocol).bytes(nonce).0
}

/// The protocol of an opening.
pub(super) fn read_opening(opening: &[u8; OPENING_BYTES]) -> Option<u32> {
    let mut from = Reader(opening);
    (from.array()? == MAGIC).then_some(())?;
    from.u32()
}

/// A hello without its proof, and how much time the rank has.
pub(super) fn read_hello(hello: &[u8; HELLO_BYTES], protocol: u32) -> Option<(Claim, u32)> {
    let mut from = Reader(hello);
    let (rank, world, left_ms) = (from.u32()?, from.u32()?, from.u32()?);
    let version = from.bytes(VERSION_BYTES)?;
    let version = String::from_utf8_lossy(version).trim_end_matches('\0').to_string();
    Some((Claim { rank, world, protocol, version }, left_ms))
}

fn claim_bytes(claim: &Claim, deadline: Instant) -> Vec<u8> {
    let mut version = claim.version.clone().into_bytes();
    version.resize(VERSION_BYTES, 0);
    Writer::default().u32(claim.rank).u32(claim.world).u32(left_ms(deadline)).bytes(&version).0
}

/// The opening of the other side, and its protocol.
fn hear_opening(stream: &mut impl Stream, deadline: Instant) -> Result<([u8; OPENING_BYTES], u32), Refused> {
    let mut theirs = [0; OPENING_BYTES];
    // The magic alone first: whoever speaks something else may say less.
    let (magic, rest) = theirs.split_at_mut(MAGIC.len());
    read_by(stream, magic, Some(deadline))?;
    if magic[..] != MAGIC {
        return Err(Refused::NotAllfold);
    }
    read_by(stream, rest, Some(deadline))?;
    let protocol = read_opening(&theirs).ok_or(Refused::NotAllfold)?;
    Ok((theirs, protocol))
}

/// The handshake of a rank. Gives the protocol of rank 0.
pub(super) fn ask(
    stream: &mut impl Stream,
    claim: &Claim,
    secret: &Secret,
    deadline: Instant,
) -> Result<Result<u32, Refused>, RendezvousError> {
    let nonce = nonce()?;
    let mut ask = || {
        let mut said = opening(claim.protocol, &nonce);
        write_by(stream, &said, deadline)?;
        let (theirs, protocol) = hear_opening(stream, deadline)?;
        said.extend(theirs);
        let mut hello = claim_bytes(claim, deadline);
        said.extend(&hello);
        hello.extend(secret.prove(Prover::Rank, &said));
        write_by(stream, &hello, deadline)?;
        let mut welcome = [0; WELCOME_BYTES];
        read_by(stream, &mut welcome, Some(deadline))?;
        let mut from = Reader(&welcome);
        let known = from.u8() == Some(1) && from.array().is_some_and(|proof| secret.verify(Prover::Hub, &said, &proof));
        if known { Ok(protocol) } else { Err(Refused::Secret) }
    };
    Ok(ask())
}

/// The handshake of rank 0: who came, and how much time it has. Whoever is refused here knows not the secret: it is nobody.
pub(super) fn receive(stream: &mut impl Stream, secret: &Secret, deadline: Instant) -> Result<(Claim, u32), Refused> {
    let (theirs, protocol) = hear_opening(stream, deadline)?;
    let nonce = nonce().map_err(|_| Refused::Cut(Cut::Closed))?;
    let ours = opening(PROTOCOL, &nonce);
    write_by(stream, &ours, deadline)?;
    let mut hello = [0; HELLO_BYTES];
    read_by(stream, &mut hello, Some(deadline))?;
    let (claimed, proof) = hello.split_at(CLAIM_BYTES);
    let said = [&theirs[..], &ours, claimed].concat();
    let known = proof.try_into().is_ok_and(|proof| secret.verify(Prover::Rank, &said, proof));
    let mut welcome = vec![u8::from(known)];
    welcome.extend(if known { secret.prove(Prover::Hub, &said) } else { [0; PROOF_BYTES] });
    write_by(stream, &welcome, deadline)?;
    if !known {
        return Err(Refused::Secret);
    }
    read_hello(&hello, protocol).ok_or(Refused::NotAllfold)
}
