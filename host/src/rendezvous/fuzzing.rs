//! What fuzzing asks of all that ranks read from connections, from messages and from the environment. See `crate::fuzzing`.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::ffi::OsStringExt;
use std::time::{Duration, Instant};

use super::call::{Call, MOST_BYTES};
use super::environment::Environment;
use super::frame::{REQUEST_BYTES, Request, decode_answer, encode_answer, give_up, read_answer};
use super::handshake::{
    CLAIM_BYTES, Claim, HELLO_BYTES, MAGIC, OPENING_BYTES, PROTOCOL, Refused, VERSION, WELCOME_BYTES, ask, read_hello,
    read_opening, receive,
};
use super::said::{self, Said};
use super::secret::{Prover, Secret};
use super::stream::Stream;
use super::{MAX_WORLD, RendezvousError, Ticket, failure};
use crate::fuzzing::canonical;

/// A connection on which somebody says what was written down before, and closes it.
struct Script {
    heard: Vec<u8>,
    taken: usize,
    said: Vec<u8>,
    /// The secret of somebody who can prove a claim.
    secret: Option<Secret>,
}

impl Script {
    fn new(heard: &[u8]) -> Script {
        Script { heard: heard.to_vec(), taken: 0, said: Vec::new(), secret: None }
    }
}

impl Read for Script {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let (Some(secret), true) = (&self.secret, self.taken == OPENING_BYTES) {
            let (opening, claim) = self.heard.split_at(OPENING_BYTES);
            let claim = &claim[..CLAIM_BYTES.min(claim.len())];
            let talk = [opening, &self.said, claim].concat();
            self.heard = [opening, claim, &secret.prove(Prover::Rank, &talk)].concat();
        }
        let count = (&self.heard[self.taken..]).read(buffer)?;
        self.taken += count;
        Ok(count)
    }
}

impl Write for Script {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.said.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for Script {
    fn limit_read(&self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }

    fn limit_write(&self, _: Duration) -> io::Result<()> {
        Ok(())
    }

    fn twin(&self) -> io::Result<Script> {
        Err(ErrorKind::Unsupported.into())
    }

    fn shut(&self, _: Shutdown) {}
}

/// A deadline that nothing comes to.
fn late() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

/// Requests, answers, failures and messages: nothing is taken that is not written so, and room is made for no more than may be.
pub(crate) fn frames(bytes: &[u8]) {
    canonical(bytes, failure::decode, failure::encode);
    if let Some(header) = bytes.first_chunk::<REQUEST_BYTES>() {
        canonical(header, |_| Request::decode(header), Request::encode);
        if let Some(request) = Request::decode(header) {
            assert!(give_up(request.left_ms) <= Instant::now() + Duration::from_millis(request.left_ms.into()));
        }
    }
    for world in [1, 3, MAX_WORLD] {
        let write = |said: &Said| match said {
            Said::Request(header, given) => said::request(header, given),
            Said::GivenUp(sequence, why) => said::given_up(*sequence, why),
            Said::Answer(all) => encode_answer(&Ok(all)),
            Said::Failure(why) => encode_answer(&Err::<Vec<_>, _>(why.clone())),
            Said::SoFar(why) => [&bytes[..1], &failure::encode(why)].concat(),
        };
        canonical(bytes, |bytes| Said::read(bytes, world), write);
        let (mut rest, mut asked) = (bytes, 0);
        let answer = decode_answer::<()>(world, |buffer| {
            asked += buffer.len();
            let (taken, left) = rest.split_at_checked(buffer.len()).ok_or(())?;
            buffer.copy_from_slice(taken);
            rest = left;
            Ok(())
        });
        assert!(asked <= bytes.len() + MOST_BYTES, "room for {asked} bytes, of which {} came", bytes.len());
        let mut stream = Script::new(bytes);
        let read = read_answer(&mut stream, world, late());
        match (answer, read) {
            (Ok(answer), Ok(read)) => {
                assert_eq!(answer, read);
                let written = encode_answer(&read);
                assert_eq!((&written[..], stream.taken), (&bytes[..stream.taken], written.len()));
            }
            (Err(answer), Err(read)) => assert_eq!(answer.is_none(), read.is_none()),
            (answer, read) => panic!("{answer:?}, and from a connection {read:?}"),
        }
    }
}

pub(crate) fn frame_seeds() -> Vec<Vec<u8>> {
    let request = Request { sequence: 3, call: Call::AllGather, left_ms: 1000, bytes: 5 };
    let errors = [
        RendezvousError::Missing { missing: vec![1, 2] },
        RendezvousError::Version { rank: 1, theirs: "1".into(), ours: "0.1.0".into() },
        RendezvousError::OutOfStep { rank: 1, sequence: 2, expected: 3 },
        RendezvousError::DifferentCalls {
            sequence: 1,
            rank: 1,
            call: Call::Barrier,
            other_rank: 0,
            other_call: Call::AllGather,
        },
        RendezvousError::Host { what: failure::SERVING, why: "starting a thread: none left".into() },
    ];
    let mut seeds = vec![
        said::request(&request, b"bytes"),
        request.encode(),
        said::so_far(&[2]),
        encode_answer(&Ok(vec![b"one".to_vec(), Vec::new(), vec![7; 200]])),
        [&[0][..], &u32::MAX.to_le_bytes(), &[0; 8]].concat(),
    ];
    seeds.extend(errors.iter().map(failure::encode));
    seeds.extend(errors.iter().map(|error| said::given_up(7, error)));
    seeds.extend(errors.into_iter().map(|error| encode_answer(&Err::<Vec<_>, _>(error))));
    seeds
}

/// Both sides of a handshake: a stranger is refused whatever it says, and hears nothing before it has said that it is allfold; somebody
/// who knows the secret is whoever it claims to be.
pub(crate) fn handshake(bytes: &[u8]) {
    let secret = Secret::new("of the fuzzer");
    let ours = bytes.starts_with(&MAGIC);
    let mut stream = Script::new(bytes);
    let refused = receive(&mut stream, &secret, late()).err();
    assert_eq!(refused == Some(Refused::NotAllfold), bytes.len() >= MAGIC.len() && !ours);
    assert_eq!(refused == Some(Refused::Secret), ours && bytes.len() >= OPENING_BYTES + HELLO_BYTES);
    assert!(refused.is_some() && stream.taken <= OPENING_BYTES + HELLO_BYTES);
    let most = if ours && bytes.len() >= OPENING_BYTES { OPENING_BYTES + WELCOME_BYTES } else { 0 };
    assert!(stream.said.len() <= most && stream.said.get(OPENING_BYTES).is_none_or(|&known| known == 0));

    let mut stream = Script::new(bytes);
    let asked = ask(&mut stream, &Claim::new(1, 2), &secret, late());
    // Where the system has no random number there is nothing to see.
    if let Ok(asked) = asked {
        let heard = ours && bytes.len() >= OPENING_BYTES;
        assert!(asked.is_err() && stream.taken <= OPENING_BYTES + WELCOME_BYTES);
        assert_eq!(stream.said.len(), OPENING_BYTES + if heard { HELLO_BYTES } else { 0 });
    }

    if ours && bytes.len() >= OPENING_BYTES + CLAIM_BYTES {
        let mut stream = Script { secret: Some(secret.clone()), ..Script::new(bytes) };
        let (claim, left_ms) = receive(&mut stream, &secret, late()).expect("it knows the secret");
        assert_eq!(stream.said.get(OPENING_BYTES), Some(&1));
        let [opening, hello] = [&stream.heard[..OPENING_BYTES], &stream.heard[OPENING_BYTES..]];
        let protocol = opening.try_into().ok().and_then(read_opening).expect("it was heard");
        let read = hello.try_into().ok().and_then(|hello| read_hello(hello, protocol));
        assert_eq!(read, Some((claim.clone(), left_ms)));
        for world in 1..=MAX_WORLD {
            let same = claim.world == world && claim.rank < world;
            let fits = same && (claim.protocol, &*claim.version) == (PROTOCOL, VERSION);
            assert_eq!(claim.agrees(world).is_ok(), fits);
        }
    }
}

pub(crate) fn handshake_seeds() -> Vec<Vec<u8>> {
    let opening = [&MAGIC[..], &PROTOCOL.to_le_bytes(), &[9; 32]].concat();
    let mut version = VERSION.as_bytes().to_vec();
    version.resize(CLAIM_BYTES - 12, 0);
    let claim = [&1_u32.to_le_bytes()[..], &2_u32.to_le_bytes(), &1000_u32.to_le_bytes(), &version].concat();
    let hello = [&opening[..], &claim, &[3; 32]].concat();
    vec![opening.clone(), hello, [&opening[..], &[1; 33]].concat(), b"GET / HTTP/1.1\r\n\r\n".to_vec()]
}

/// Tickets of a line.
pub(crate) fn ticket(bytes: &[u8]) {
    canonical(bytes, Ticket::decode, Ticket::encode);
}

/// A process's variables, a line each: whoever is let through is a rank that can be, at an address that can be, and the same again
/// where it is told so in our own variables.
pub(crate) fn environment(bytes: &[u8]) {
    let pairs: Vec<_> = bytes
        .split(|&byte| byte == b'\n')
        .filter_map(|line| Some(line.split_at(line.iter().position(|&byte| byte == b'=')?)))
        .collect();
    let read = Environment::of(|name| {
        let (_, value) = pairs.iter().find(|(of, _)| *of == name.as_bytes())?;
        Some(OsString::from_vec(value[1..].to_vec()))
    });
    let environment = match read {
        Ok(environment) => environment,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let Environment { rank, world, local_rank, port, .. } = environment;
    assert!((1..=MAX_WORLD).contains(&world) && rank < world && local_rank < world && port > 0);
    let address = environment.address();
    let (host, told) = address.rsplit_once(':').expect("a port");
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    assert_eq!((host, told), (&*environment.host, &*port.to_string()));
    let again = Environment::of(|name| {
        Some(match name {
            "RANK" => rank.to_string().into(),
            "WORLD_SIZE" => world.to_string().into(),
            "LOCAL_RANK" => local_rank.to_string().into(),
            "ALLFOLD_ADDR" => environment.host.clone().into(),
            "ALLFOLD_PORT" => port.to_string().into(),
            _ => return None,
        })
    });
    assert_eq!(again.map(|again| Environment { secret: environment.secret.clone(), ..again }), Ok(environment));
}

pub(crate) fn environments() -> Vec<Vec<u8>> {
    let torchrun = "RANK=1\nWORLD_SIZE=4\nLOCAL_RANK=1\nMASTER_PORT=29500\nLOCAL_WORLD_SIZE=4\nTORCHELASTIC_RUN_ID=7";
    let own = "RANK=0\nWORLD_SIZE=2\nLOCAL_RANK=0\nALLFOLD_ADDR=::1\nALLFOLD_PORT=7\nALLFOLD_SECRET=x";
    let slurm = "SLURM_PROCID=2\nSLURM_NTASKS=3\nSLURM_LOCALID=2\nMASTER_PORT=65000\nSLURM_STEP_NUM_NODES=1\n\
                 SLURM_JOB_ID=8\nSLURM_STEP_ID=0";
    [torchrun, own, slurm].map(|text| text.as_bytes().to_vec()).to_vec()
}
