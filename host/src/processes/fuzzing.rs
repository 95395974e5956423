//! What fuzzing asks of what ranks tell each other to be connected. See `crate::fuzzing`.

use std::time::Duration;

use super::Meeting;
use super::agreement::{agree, describe};
use super::descriptors::Told;
use crate::error::Error;
use crate::fuzzing::{Scripted, canonical, script};
use crate::options::Options;

const TIMEOUT: Duration = Duration::from_secs(3600);

fn description() -> Vec<u8> {
    let layout = allfold_kernels::protocol::abi::WorkspaceLayout::new(2, 128, 128, 128).expect("it is small");
    describe("CPU ranks", &Options::default(), &layout).expect("there is /proc")
}

/// Where descriptors are to be sent.
pub(crate) fn descriptors(bytes: &[u8]) {
    canonical(bytes, Told::decode, Told::encode);
}

/// The words of a step and those of a long one, and what ranks are made for: nothing is taken that was not said, and ranks agree
/// where all said the same and nowhere else.
pub(crate) fn meetings(bytes: &[u8]) {
    let ranks = Scripted::new(bytes);
    let meeting = Meeting::new(&ranks, TIMEOUT).expect("a rank of the world");
    if let Ok(((), words)) = meeting.step_long(Ok(()), |()| b"own".to_vec()) {
        assert_eq!((words.len(), &words[0][..]), (Scripted::WORLD as usize, &b"own"[..]));
        assert!(words.iter().map(Vec::len).sum::<usize>() <= bytes.len() + b"own".len());
    }
    let own = description();
    let ranks = Scripted::new(bytes);
    let meeting = Meeting::new(&ranks, TIMEOUT).expect("a rank of the world");
    let heard = Meeting::new(&Scripted::new(bytes), TIMEOUT).and_then(|meeting| meeting.step(Ok(()), |()| own.clone()));
    match (agree(&meeting, Ok(((), own.clone()))), heard) {
        (agreed, Ok((_, said))) => {
            let own = String::from_utf8_lossy(&own);
            let same = said.iter().all(|word| String::from_utf8_lossy(word).lines().eq(own.lines()));
            assert_eq!(agreed.is_ok(), same);
            assert!(agreed.is_ok() || matches!(agreed, Err(Error::Disagreement { .. })), "{agreed:?}");
        }
        (agreed, Err(_)) => assert!(agreed.is_err()),
    }
}

pub(crate) fn meeting_seeds() -> Vec<Vec<u8>> {
    let of = |words: &[&[u8]]| script(&words.iter().map(|word| word.to_vec()).collect::<Vec<_>>());
    let long = [&[0][..], &(1_u64 << 20).to_le_bytes(), b"the start"].concat();
    let other = String::from_utf8_lossy(&description()).replace("f32", "f64").into_bytes();
    vec![
        of(&[&[0, 7, 0, 0, 0, 0, 0, 0, 0, b's', b'h', b'o', b'r', b't', b'e', b'r']]),
        of(&[&long, b"\0middle", b"\0end"]),
        of(&[b"\x01why"]),
        of(&[&[&[0][..], &description()].concat()]),
        of(&[&[&[0][..], &other].concat()]),
        of(&[&[0, 255, 255, 255, 255, 255, 255, 255, 255], b"\0"]),
    ]
}
