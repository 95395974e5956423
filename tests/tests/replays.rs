//! Captures on CPU ranks that come to nothing: whatever `record` does, calls run again afterwards. And captured calls that there
//! can be no room for.

use std::panic::{AssertUnwindSafe, catch_unwind};

use allfold::rendezvous::{Rendezvous, local};
use allfold::{
    Algorithm, CallOptions, Communicator, Delays, Dtype, Error, InputMode, Options, Preset, RankBuffers, ReduceOp,
    Registered,
};

/// A call whose sum tells whether it has run.
fn call(comm: &mut Communicator, data: &mut [Vec<f32>], registered: Registered) -> Result<(), Error> {
    let buffers: Vec<_> = data.iter_mut().map(|d| RankBuffers::in_place(d)).collect();
    comm.all_reduce_with(&buffers, ReduceOp::Sum, &CallOptions { registered, ..CallOptions::default() }).map(drop)
}

fn ones(comm: &Communicator) -> Vec<Vec<f32>> {
    vec![vec![1.0; 100]; comm.local_ranks().len()]
}

/// Calls run now, and are right.
fn runs(comm: &mut Communicator) {
    let mut data = ones(comm);
    call(comm, &mut data, Registered::No).expect("all ranks call");
    assert!(data.iter().flatten().all(|&x| x == comm.world() as f32), "it was not run");
}

/// The same on each of `world` ranks, threads with a communicator of several.
fn on_threads(world: u32, options: impl Fn(u32) -> Options + Sync, body: impl Fn(Result<Communicator, Error>) + Sync) {
    std::thread::scope(|scope| {
        for seat in local(world).expect("so many ranks") {
            let (options, body) = (&options, &body);
            scope.spawn(move || body(Communicator::connect_cpu_with(&seat, options(seat.rank()))));
        }
    });
}

#[test]
fn a_record_that_panics_is_no_capture() {
    let mut comm = Communicator::cpu(3).expect("three ranks");
    let mut data = ones(&comm);
    let panic = catch_unwind(AssertUnwindSafe(|| {
        comm.capture(&[], |comm| {
            call(comm, &mut data, Registered::No)?;
            panic!("in the middle");
        })
    }));
    let panic = panic.expect_err("it goes on");
    assert_eq!(panic.downcast_ref(), Some(&"in the middle"));
    assert!(data.iter().flatten().all(|&x| x == 1.0), "it was run");
    runs(&mut comm);
}

#[test]
fn what_was_recorded_before_a_panic_or_an_error_is_not_finished() {
    let options = |_| Options { captured_calls: 8, ..Options::for_processes() };
    on_threads(2, options, |comm| {
        let mut comm = comm.expect("both come");
        let mut data = ones(&comm);
        if comm.local_ranks().start == 1 {
            let panic = catch_unwind(AssertUnwindSafe(|| {
                comm.capture(&[], |comm| {
                    call(comm, &mut data, Registered::Later)?;
                    panic!("on this rank alone");
                })
            }));
            panic.expect_err("it goes on");
            let failed = comm.capture(&[], |comm| {
                call(comm, &mut data, Registered::Later)?;
                Err(Error::LaunchBlocking)
            });
            assert!(matches!(failed, Err(Error::LaunchBlocking)), "{failed:?}");
        }
        let captured = comm.capture(&[], |comm| call(comm, &mut data, Registered::Later)).expect("it is captured");
        comm.finish_capture().expect("both have captured one call");
        // SAFETY: the buffers live on.
        unsafe { comm.replay(&captured, &[]) }.expect("both replay");
        assert!(data.iter().flatten().all(|&x| x == 2.0));
        runs(&mut comm);
    });
}

#[test]
fn a_capture_within_another_is_refused_and_spoils_nothing() {
    let mut comm = Communicator::cpu(2).expect("two ranks");
    let mut data = ones(&comm);
    let captured = comm.capture(&[], |comm| {
        call(comm, &mut data, Registered::No)?;
        let inner = comm.capture(&[], |_| panic!("it is refused before"));
        assert!(matches!(inner, Err(Error::Capturing)), "{inner:?}");
        call(comm, &mut data, Registered::No)
    });
    let captured = captured.expect("the outer one goes on");
    assert!(data.iter().flatten().all(|&x| x == 1.0), "it was run");
    // SAFETY: the buffers live on.
    unsafe { comm.replay(&captured, &[]) }.expect("two calls");
    assert!(data.iter().flatten().all(|&x| x == 4.0));
    runs(&mut comm);
}

#[test]
fn a_record_that_replaces_the_communicator_has_captured_nothing() {
    let mut comm = Communicator::cpu(2).expect("two ranks");
    let captured = comm.capture(&[], |comm| {
        *comm = Communicator::cpu(3)?;
        Ok(())
    });
    assert!(matches!(captured, Err(Error::NotCaptured { .. })), "{captured:?}");
    runs(&mut comm);
}

#[test]
fn a_communicator_that_is_taken_out_of_a_capture_runs_its_calls() {
    let mut comm = Communicator::cpu(2).expect("two ranks");
    let mut other = Communicator::cpu(3).expect("three ranks");
    let captured = comm.capture(&[], |comm| {
        std::mem::swap(comm, &mut other);
        Ok(())
    });
    assert!(matches!(captured, Err(Error::NotCaptured { .. })), "{captured:?}");
    runs(&mut comm);
    // The one that was captured: it has left without a word.
    runs(&mut other);
    let mut data = ones(&other);
    let captured =
        other.capture(&[], |other| call(other, &mut data, Registered::No)).expect("it can be captured again");
    assert!(data.iter().flatten().all(|&x| x == 1.0), "it was run");
    // SAFETY: the buffers live on.
    unsafe { other.replay(&captured, &[]) }.expect("one call");
    assert!(data.iter().flatten().all(|&x| x == 2.0));
}

#[test]
fn captured_calls_of_other_protocols_or_without_end_are_refused_between_processes() {
    let with = |captured_calls| Options { captured_calls, ..Options::for_processes() };
    let delays = Some(Delays { nanoseconds: 1, one_in: 1 });
    let custom = Options::default().form(Algorithm::OneShot, InputMode::Registered);
    let not_declared = [
        Options { protocol: Preset::Vllm, inputs: vec![InputMode::Registered], ..with(1) },
        Options { delays, dtypes: vec![Dtype::Bf16], ..with(1) },
        Options { custom, ..with(1) },
    ];
    for options in &not_declared {
        on_threads(
            2,
            |_| options.clone(),
            |comm| {
                let error = comm.expect_err("captured kernels are of one protocol");
                let Error::NotDeclared { option, .. } = error else { panic!("{error:?}") };
                assert!(option.starts_with("captured_calls"), "{option}");
            },
        );
    }
    on_threads(
        2,
        |_| with(u32::MAX),
        |comm| {
            let error = comm.expect_err("they are too many");
            assert!(matches!(error, Error::CapturedCallsTooLarge { calls: u32::MAX, most: 0x10_0000 }), "{error:?}");
        },
    );
    // What one rank asks for is told to all.
    on_threads(
        2,
        |rank| with(if rank == 1 { u32::MAX } else { 1 }),
        |comm| {
            let error = comm.expect_err("one asks for too many");
            let said = error.to_string();
            let told = said.strip_prefix("rank 1 failed: ").unwrap_or(&said);
            assert_eq!(told, "room for 4294967295 captured calls asked for: 1048576 are the most");
            assert_eq!(told == said, matches!(error, Error::CapturedCallsTooLarge { .. }), "{error:?}");
        },
    );
    // In one process it is not looked at.
    on_threads(1, |_| with(u32::MAX), |comm| runs(&mut comm.expect("one rank")));
    for options in not_declared {
        Communicator::cpu_with(2, Options { captured_calls: u32::MAX, ..options }).expect("two ranks");
    }
}
