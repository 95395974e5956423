//! Ranks that cannot be connected: one typed error on every rank, within the deadline, and nothing left behind.

mod meet;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use allfold::rendezvous::{Rendezvous, RendezvousError, Unix};
use allfold::tuning::{Entry, Origin, Table};
use allfold::{Algorithm, Communicator, Dtype, Error, InputMode, Options, Preset, RankBuffers, ReduceOp};
use meet::held::Held;
use meet::{Case, on_all, tell};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn small() -> Options {
    Options { capacity_bytes: 4096, connect_timeout: Duration::from_secs(20), ..Options::for_processes() }
}

/// Connects and, if that is so on all ranks, calls; what came of it, as each rank says.
fn attempt(seat: &Unix, options: Options) -> (Result<(), Error>, Vec<String>) {
    let result = Communicator::connect_cpu_with(seat, options).and_then(|mut comm| {
        let mut data = [1.0_f32; 100];
        comm.all_reduce(&[RankBuffers::in_place(&mut data)], ReduceOp::Sum)?;
        assert!(data.iter().all(|&x| x == seat.world() as f32));
        Ok(())
    });
    let said = tell(seat, &result.as_ref().map_or_else(Error::to_string, |()| "connected".to_owned()));
    (result, said)
}

/// A table of one row, for a call of two ranks.
fn table(blocks: u32) -> Table {
    let origin = Origin { device: Origin::CPU.to_owned(), date: "today".to_owned(), command: "by hand".to_owned() };
    let entry = Entry {
        ranks: 2,
        elem_bytes: 4,
        declared: allfold::tuning::Declared::Staged,
        up_to_bytes: u64::MAX,
        algorithm: Algorithm::OneShot,
        blocks,
        threads: 32,
    };
    Table::new(&origin, &[entry]).expect("a table")
}

#[test]
fn options_that_differ_are_named_on_every_rank() {
    on_all("options_that_differ_are_named_on_every_rank", Case(3, 0), |seat| {
        let before = Held::now();
        let cases: Vec<(&str, Options)> = vec![
            ("Options::protocol", Options { protocol: Preset::Minimal, ..small() }),
            (
                "Options::custom",
                Options { custom: Preset::Vllm.protocol(Algorithm::OneShot, InputMode::Memcpy), ..small() },
            ),
            ("Options::dtypes", Options { dtypes: vec![Dtype::F32], ..small() }),
            ("Options::inputs", Options { inputs: vec![InputMode::Copied, InputMode::Memcpy], ..small() }),
            ("Options::algorithms", Options { algorithms: vec![Algorithm::TwoShot], ..small() }),
            ("Options::tuning", Options { tuning: Some(table(1)), ..small() }),
            ("Options::capacity_bytes", Options { capacity_bytes: 4112, ..small() }),
            ("Options::landing_bytes", Options { landing_bytes: Some(64), ..small() }),
            ("Options::max_blocks", Options { max_blocks: Some(1), ..small() }),
            ("Options::last_epoch", Options { last_epoch: 1, ..small() }),
            ("Options::cpu_shape", Options { cpu_shape: (1, 2), ..small() }),
        ];
        for (number, (what, other)) in cases.into_iter().enumerate() {
            let odd = number as u32 % 3;
            let options = if seat.rank() == odd { other } else { small() };
            let (result, said) = attempt(seat, options);
            let Err(Error::Disagreement { what: differs, values }) = result else { panic!("{what}: {result:?}") };
            assert_eq!(differs, what);
            let of_odd = values.iter().find(|(_, ranks)| ranks == &[odd]);
            assert!(values.len() == 2 && of_odd.is_some(), "{values:?}");
            assert!(said.iter().all(|word| *word == said[0]), "{said:?}");
        }
        // Tables are told from each other, and those of one content are not.
        let tuned = |blocks| Options { tuning: Some(table(blocks)), ..small() };
        let (result, _) = attempt(seat, tuned(1 + seat.rank() % 2));
        assert!(matches!(&result, Err(Error::Disagreement { what, .. }) if what == "Options::tuning"), "{result:?}");
        // What is a rank's own may differ, and nothing is left of all that failed.
        before.check("after disagreement");
        let own =
            Options { poll_limit: Some(300_000 + u64::from(seat.rank())), early_launch: seat.rank() == 0, ..tuned(1) };
        attempt(seat, own).0.expect("nothing differs that matters");
        before.check("after it all");
    });
}

#[test]
fn options_that_cannot_be_on_one_rank_are_told_to_all() {
    on_all("options_that_cannot_be_on_one_rank_are_told_to_all", Case(2, 0), |seat| {
        let options = if seat.rank() == 1 { Options { cpu_shape: (0, 1), ..small() } } else { small() };
        let (result, _) = attempt(seat, options);
        match result {
            Err(Error::Grid { blocks: 0, .. }) if seat.rank() == 1 => {}
            Err(Error::RankFailed { rank: 1, why }) if seat.rank() == 0 => assert!(why.contains("0 blocks"), "{why}"),
            other => panic!("{other:?}"),
        }
        // Too much for any host, on all ranks alike.
        let (result, _) = attempt(seat, Options { capacity_bytes: 1 << 50, ..small() });
        assert!(matches!(result, Err(Error::TooLittleMemory { .. })), "{result:?}");
        let (result, _) = attempt(seat, Options { capacity_bytes: u64::MAX, ..small() });
        assert!(matches!(result, Err(Error::CapacityTooLarge { .. })), "{result:?}");
    });
}

/// Lowers a limit of this process for `body`.
fn limited<T>(resource: Resource, limit: u64, body: impl FnOnce() -> T) -> T {
    let usual = getrlimit(resource);
    let low = Rlimit { current: Some(limit), maximum: usual.maximum };
    setrlimit(resource, low).expect("it is lower");
    let result = body();
    setrlimit(resource, usual).expect("it was the limit before");
    result
}

/// One rank has less and less of a resource: at each step it fails in another place.
fn sweep(seat: &Unix, resource: Resource, limits: impl Iterator<Item = u64>, wanted: &[&str]) {
    let before = Held::now();
    let mut seen = Vec::new();
    for limit in limits {
        let (result, said) = match seat.rank() {
            1 => limited(resource, limit, || attempt(seat, small())),
            _ => attempt(seat, small()),
        };
        let why = said[1].clone();
        match (result, seat.rank()) {
            (Ok(()), _) => assert!(said.iter().all(|word| word == "connected"), "{said:?}"),
            (Err(Error::Host { .. }), 1) => {}
            (Err(Error::RankFailed { rank: 1, why: told }), 0 | 2) => assert_eq!(told, why),
            other => panic!("{resource:?} {limit}: {other:?}"),
        }
        before.check(&format!("{resource:?} {limit}: {why}"));
        seen.push(why);
    }
    for wanted in wanted {
        assert!(seen.iter().any(|why| why.starts_with(wanted)), "no {wanted} in {seen:#?}");
    }
    assert!(seen.last().is_some_and(|why| why == "connected"), "{seen:#?}");
}

#[test]
fn a_rank_out_of_file_descriptors_fails_on_all_wherever_that_is() {
    on_all("a_rank_out_of_file_descriptors_fails_on_all_wherever_that_is", Case(3, 0), |seat| {
        let open = std::fs::read_dir("/proc/self/fd").expect("/proc").count() as u64 - 1;
        let wanted = ["reading which host", "opening a socket", "sending a descriptor", "receiving a descriptor"];
        sweep(seat, Resource::Nofile, open - 2..open + 8, &wanted);
    });
}

#[test]
fn a_rank_out_of_address_space_fails_on_all_wherever_that_is() {
    on_all("a_rank_out_of_address_space_fails_on_all_wherever_that_is", Case(3, 0), |seat| {
        let pages = std::fs::read_to_string("/proc/self/statm").expect("/proc");
        let used = pages.split(' ').next().and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096;
        // Three workspaces of less than 1 MiB each, and a thread's stack of 2 MiB.
        let limits = (0..12).map(|step| used + step * (512 << 10));
        sweep(
            seat,
            Resource::As,
            limits.chain([used + (64 << 20)]),
            &["mapping a workspace", "starting a CPU rank's thread"],
        );
    });
}

/// A rendezvous to which something happens at one of its steps.
struct At<'a, F> {
    seat: &'a Unix,
    step: Cell<u32>,
    happens: F,
}

impl<'a, F: Fn(u32)> At<'a, F> {
    fn new(seat: &'a Unix, happens: F) -> Self {
        At { seat, step: Cell::new(0), happens }
    }
}

impl<F: Fn(u32)> Rendezvous for At<'_, F> {
    fn rank(&self) -> u32 {
        self.seat.rank()
    }

    fn world(&self) -> u32 {
        self.seat.world()
    }

    fn all_gather(&self, bytes: &[u8], deadline: Instant) -> Result<Vec<Vec<u8>>, RendezvousError> {
        (self.happens)(self.step.get());
        self.step.set(self.step.get() + 1);
        self.seat.all_gather(bytes, deadline)
    }
}

/// Steps of a connection.
const STEPS: u32 = 7;

#[test]
fn a_rank_that_dies_while_it_is_connected_ends_it_on_all() {
    // Where rank 0 dies at once the others may not have met.
    let steps = (1..=STEPS).map(|step| (0, step)).chain((0..=STEPS).map(|step| (1, step)));
    for (who, dies_at) in steps {
        let case = Case(3, who * (STEPS + 1) + dies_at);
        on_all("a_rank_that_dies_while_it_is_connected_ends_it_on_all", case, |seat| {
            let before = Held::now();
            let begun = Instant::now();
            let rendezvous = At::new(seat, |step| {
                if seat.rank() == who && step == dies_at {
                    std::process::exit(0);
                }
            });
            let result = Communicator::connect_cpu_with(&rendezvous, small());
            if dies_at == STEPS {
                assert_eq!(rendezvous.step.get(), STEPS, "it has as many steps as are tried here");
                return drop(result.expect("nobody has died"));
            }
            let error = result.expect_err("a rank is gone");
            assert!(matches!(error, Error::Rendezvous(RendezvousError::Gone { rank }) if rank == who), "{error}");
            assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
            before.check(&format!("rank {who} died at step {dies_at}"));
        });
    }
}

#[test]
fn strangers_at_the_sockets_change_nothing() {
    on_all("strangers_at_the_sockets_change_nothing", Case(3, 0), |seat| {
        let kept = std::cell::RefCell::new(Vec::new());
        let rendezvous = At::new(seat, |_| {
            // Whatever listens now: some connect and say nothing, some send what is no token, or too much of it.
            let table = std::fs::read_to_string("/proc/net/unix").expect("/proc");
            let names = table.lines().filter_map(|line| line.split_once(" @allfold-")).map(|(_, rest)| rest);
            // Connections have the name of the socket that they were made to.
            let names: BTreeSet<_> = names.collect();
            for name in names {
                for word in [&b""[..], b"x", &[7; 20], &[7; 500]] {
                    let stranger =
                        rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
                    let address =
                        SocketAddrUnix::new_abstract_name(format!("allfold-{name}").as_bytes()).expect("short");
                    // It may be gone by now.
                    if rustix::net::connect(&stranger, &address).is_ok() && !word.is_empty() {
                        let _ = rustix::net::send(&stranger, word, rustix::net::SendFlags::NOSIGNAL);
                    }
                    kept.borrow_mut().push(stranger);
                }
            }
        });
        let comm = Communicator::connect_cpu_with(&rendezvous, small()).expect("strangers are turned away");
        assert!(kept.borrow().len() >= 4, "somebody listened: {}", kept.borrow().len());
        drop(comm);
    });
}

#[test]
fn a_rank_that_its_group_does_not_have_is_refused() {
    struct Odd(u32, u32);
    impl Rendezvous for Odd {
        fn rank(&self) -> u32 {
            self.0
        }
        fn world(&self) -> u32 {
            self.1
        }
        fn all_gather(&self, bytes: &[u8], _: Instant) -> Result<Vec<Vec<u8>>, RendezvousError> {
            Ok(vec![bytes.to_vec()])
        }
    }
    let of = |rank, world| Communicator::connect_cpu(&Odd(rank, world)).expect_err("it cannot be");
    assert!(matches!(of(0, 0), Error::NoSuchRank { rank: 0, world: 0 }));
    assert!(matches!(of(3, 2), Error::NoSuchRank { rank: 3, world: 2 }));
    assert!(matches!(of(0, 9), Error::WorldSize { world: 9 }));
    // One that does not give a word for each rank.
    assert!(matches!(of(0, 2), Error::RankFailed { rank: 0, .. }));
}
