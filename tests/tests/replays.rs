//! Captures on CPU ranks that come to nothing: whatever `record` does, calls run again afterwards.

use std::panic::{AssertUnwindSafe, catch_unwind};

use allfold::rendezvous::{Rendezvous, local};
use allfold::{CallOptions, Communicator, Error, Options, RankBuffers, ReduceOp, Registered};

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
