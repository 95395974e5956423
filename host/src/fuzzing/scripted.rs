//! A rendezvous of this rank alone, in which what the others say is read from bytes.

use std::cell::Cell;
use std::time::Instant;

use crate::rendezvous::{Rendezvous, RendezvousError};

/// Rank 0 of three, of which the others say what a script has: each word's length in two bytes, then the word; of each call that of rank
/// 1 first. Where the script ends they are missing.
pub(crate) struct Scripted<'a>(Cell<&'a [u8]>);

impl<'a> Scripted<'a> {
    pub(crate) const WORLD: u32 = 3;

    pub(crate) fn new(script: &'a [u8]) -> Scripted<'a> {
        Scripted(Cell::new(script))
    }

    fn word(&self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.get().split_first_chunk()?;
        let (word, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        self.0.set(rest);
        Some(word)
    }
}

impl Rendezvous for Scripted<'_> {
    fn rank(&self) -> u32 {
        0
    }

    fn world(&self) -> u32 {
        Scripted::WORLD
    }

    fn all_gather(&self, bytes: &[u8], _deadline: Instant) -> Result<Vec<Vec<u8>>, RendezvousError> {
        let mut all = vec![bytes.to_vec()];
        for rank in 1..Scripted::WORLD {
            let missing = || RendezvousError::Missing { missing: vec![rank] };
            all.push(self.word().ok_or_else(missing)?.to_vec());
        }
        Ok(all)
    }
}

/// The script in which both others say `words`, one a call.
pub(crate) fn script(words: &[Vec<u8>]) -> Vec<u8> {
    let said = |word: &Vec<u8>| [&(word.len() as u16).to_le_bytes()[..], word].concat();
    words.iter().flat_map(|word| said(word).repeat(Scripted::WORLD as usize - 1)).collect()
}
