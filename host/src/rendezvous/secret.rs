//! The secret of a group, and the proof that one knows it without saying it: HMAC-SHA256 over what both have said.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::RendezvousError;

/// Bytes of a random number that a proof is about, and of a proof.
pub(super) const NONCE_BYTES: usize = 32;
pub(super) const PROOF_BYTES: usize = 32;

/// Bytes of HMAC-SHA256's key, which it would fill up with zeros.
const KEY_BYTES: usize = 64;

/// What the ranks of a group know, and nobody else. It is never sent. It keeps others out of the group; what ranks send
/// each other then is neither encrypted nor signed.
///
/// It should be long and random: whoever listens in place of rank 0 gets a proof to try secrets on.
///
/// The default is no secret: whoever reaches the address may be a rank.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; KEY_BYTES]);

/// Who proves.
#[derive(Clone, Copy)]
pub(super) enum Prover {
    Rank,
    Hub,
}

impl Secret {
    /// A secret of any bytes, of any length.
    pub fn new(bytes: impl AsRef<[u8]>) -> Secret {
        let mut key = [0; KEY_BYTES];
        let digest = Sha256::digest(bytes.as_ref());
        key[..digest.len()].copy_from_slice(&digest);
        Secret(key)
    }

    fn mac(&self, prover: Prover, said: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::new(&self.0.into());
        // Not the same for both: nobody proves by sending a proof back.
        mac.update(match prover {
            Prover::Rank => b"allfold rank",
            Prover::Hub => b"allfold hub ",
        });
        mac.update(said);
        mac
    }

    /// The proof of `prover` after both have said `said`.
    pub(super) fn prove(&self, prover: Prover, said: &[u8]) -> [u8; PROOF_BYTES] {
        self.mac(prover, said).finalize().into_bytes().into()
    }

    /// Whether `proof` is that proof; in a time that does not tell how much of it is.
    pub(super) fn verify(&self, prover: Prover, said: &[u8], proof: &[u8; PROOF_BYTES]) -> bool {
        self.mac(prover, said).verify_slice(proof).is_ok()
    }
}

impl Default for Secret {
    fn default() -> Secret {
        Secret::new([])
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A random number that was never used before.
pub(super) fn nonce() -> Result<[u8; NONCE_BYTES], RendezvousError> {
    let mut nonce = [0; NONCE_BYTES];
    let what = "a random number for the handshake";
    getrandom::fill(&mut nonce).map_err(|error| RendezvousError::Host { what, why: error.to_string() })?;
    Ok(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_secret_one_prover_and_one_talk() {
        let secret = Secret::new("one");
        let proof = secret.prove(Prover::Rank, b"talk");
        assert!(secret.verify(Prover::Rank, b"talk", &proof));
        assert!(!secret.verify(Prover::Hub, b"talk", &proof));
        assert!(!secret.verify(Prover::Rank, b"walk", &proof));
        assert!(!Secret::new("two").verify(Prover::Rank, b"talk", &proof));
        assert!(!Secret::default().verify(Prover::Rank, b"talk", &proof));
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }
}
