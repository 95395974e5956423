//! Ranks that cannot be connected: one typed error on every rank, within the deadline, and nothing left behind.

mod meet;

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use allfold::rendezvous::{Rendezvous, RendezvousError};
use allfold::tuning::{Entry, Origin, Table};
use allfold::{Algorithm, Communicator, Dtype, Error, InputMode, Options, Preset, SelfTest};
use meet::attempt::{At, attempt, small};
use meet::held::Held;
use meet::{Case, on_all};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

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
            ("Options::self_test", Options { self_test: SelfTest::Never, ..small() }),
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
        let own = Options {
            timeout: Some(Duration::from_secs(30 + u64::from(seat.rank()))),
            early_launch: seat.rank() == 0,
            ..tuned(1)
        };
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
        // Too much for any host, on all ranks alike; and more than a number holds for both together.
        for capacity_bytes in [1 << 50, 3 << 61] {
            let (result, _) = attempt(seat, Options { capacity_bytes, ..small() });
            assert!(matches!(result, Err(Error::TooLittleMemory { .. })), "{result:?}");
        }
        let (result, _) = attempt(seat, Options { capacity_bytes: u64::MAX, ..small() });
        assert!(matches!(result, Err(Error::CapacityTooLarge { .. })), "{result:?}");
    });
}

/// Steps of a connection that ranks take by the caller's rendezvous.
const STEPS: u32 = 3;

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
fn a_rank_that_dies_at_any_time_ends_it_on_all_or_too_late() {
    // Later steps are taken by the communicator's own line: rank 0 or 1 dies a quarter of a millisecond later each time.
    for number in 0..40 {
        let (who, dies_after) = (number % 2, Duration::from_micros(250) * (number / 2));
        on_all("a_rank_that_dies_at_any_time_ends_it_on_all_or_too_late", Case(3, number), |seat| {
            let before = Held::now();
            let begun = Instant::now();
            // Where rank 0 dies before the first step is done the others may not have met.
            let rendezvous = At::new(seat, |step| {
                if (seat.rank(), step) == (who, 1) {
                    std::thread::spawn(move || {
                        std::thread::sleep(dies_after);
                        std::process::exit(0);
                    });
                }
            });
            let result = Communicator::connect_cpu_with(&rendezvous, small());
            if seat.rank() == who {
                // It is too late for this.
                std::process::exit(0);
            }
            match &result {
                Ok(_) => {}
                Err(Error::Rendezvous(RendezvousError::Gone { rank }) | Error::PeerGone { rank }) if *rank == who => {}
                // It had a word for all before it died, and one of them found it gone then.
                Err(Error::RankFailed { why, .. }) if *why == format!("rank {who} is gone") => {}
                Err(error) => panic!("{error:?}"),
            }
            assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
            drop(result);
            before.check(&format!("rank {who} died after {dies_after:?}"));
        });
    }
}

/// Comes to whatever listens now: says nothing, or what is no token and no greeting, or too much of it. Some stay a while.
fn knock(kept: &mut Vec<OwnedFd>) {
    let table = std::fs::read_to_string("/proc/net/unix").expect("/proc");
    let names = table.lines().filter_map(|line| line.split_once(" @allfold-")).map(|(_, rest)| rest);
    // Connections have the name of the socket that they were made to.
    let names: BTreeSet<_> = names.collect();
    for name in names {
        let kind = if name.starts_with("line-") { SocketType::STREAM } else { SocketType::SEQPACKET };
        for word in [&b""[..], b"x", &[7; 20], &[7; 500]] {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let stranger = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).expect("a socket");
            let address = SocketAddrUnix::new_abstract_name(format!("allfold-{name}").as_bytes()).expect("short");
            // It may be gone by now.
            if rustix::net::connect(&stranger, &address).is_ok() {
                if !word.is_empty() {
                    let _ = rustix::net::send(&stranger, word, rustix::net::SendFlags::NOSIGNAL);
                }
                kept.push(stranger);
            }
        }
    }
    // As many as one process may bring without keeping ranks out.
    let gone = kept.len().saturating_sub(8);
    kept.drain(..gone);
}

#[test]
fn strangers_at_the_sockets_change_nothing() {
    on_all("strangers_at_the_sockets_change_nothing", Case(3, 0), |seat| {
        let done = AtomicBool::new(false);
        let knocked = std::thread::scope(|scope| {
            let strangers = scope.spawn(|| {
                let mut kept = Vec::new();
                while !done.load(Ordering::Relaxed) {
                    knock(&mut kept);
                    // Not a flood, in which ranks have to wait for their turn at the door.
                    std::thread::sleep(Duration::from_millis(5));
                }
                kept.len()
            });
            // Until strangers have met with each of its sockets, in whatever step.
            for _ in 0..20 {
                drop(Communicator::connect_cpu_with(seat, small()).expect("strangers are turned away"));
            }
            done.store(true, Ordering::Relaxed);
            strangers.join().expect("it only knocks")
        });
        assert!(knocked >= 4, "somebody listened: {knocked}");
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
