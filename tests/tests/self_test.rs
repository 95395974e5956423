//! The self-test of CPU ranks in processes of their own: what has passed is kept for all processes of a user, and is by all ranks or by
//! none, whatever each of them knows. Paths that do not work are in `host/src/self_test/tests.rs`, where they can be planted.

mod meet;

use std::fs;
use std::path::{Path, PathBuf};

use allfold::rendezvous::{Rendezvous, Unix};
use allfold::{Communicator, Options, RankBuffers, ReduceOp, SelfTest};
use meet::attempt::small;
use meet::{Case, Folder, on_all_with_caches, starts_ranks, tell};

/// Connects, and sums: whether there was a self-test, the same on all ranks.
fn tested(seat: &Unix, options: Options) -> bool {
    let mut comm = Communicator::connect_cpu_with(seat, options).expect("paths work");
    let mut data = [1.0_f32; 100];
    comm.all_reduce(&[RankBuffers::in_place(&mut data)], ReduceOp::Sum).expect("all ranks call");
    assert_eq!(data, [seat.world() as f32; 100]);
    let tested = comm.self_test_took().is_some();
    let said = tell(seat, &tested.to_string());
    assert!(said.iter().all(|word| *word == said[0]), "{said:?}");
    tested
}

/// The file of each rank's cache that says what has passed: where there is one, there is nothing else.
fn files(caches: &Path) -> Vec<Option<PathBuf>> {
    let file = |rank: u32| {
        let folder = caches.join(rank.to_string()).join("allfold");
        let files: Vec<_> = fs::read_dir(folder).ok()?.map(|entry| entry.expect("it can be read").path()).collect();
        assert!(files.len() <= 1, "{files:?}");
        files.into_iter().next()
    };
    (0..3).map(file).collect()
}

#[test]
fn b92_b93_what_has_passed_is_known_to_later_processes_and_tested_where_one_does_not_know() {
    let test = "b92_b93_what_has_passed_is_known_to_later_processes_and_tested_where_one_does_not_know";
    // Ranks know theirs.
    let folder = starts_ranks().then(Folder::new);
    let caches = folder.as_ref().map_or(PathBuf::new(), |folder| folder.0.clone());
    let run = |number, wanted: bool| {
        on_all_with_caches(test, Case(3, number), &caches, |seat| {
            assert_eq!(tested(seat, small()), wanted, "case {number}");
            // This process knows by now.
            assert!(!tested(seat, small()));
            assert!(tested(seat, Options { self_test: SelfTest::Always, ..small() }));
            assert!(!tested(seat, Options { self_test: SelfTest::Never, ..small() }));
        });
    };
    // What only the process does that starts the ranks.
    let prepare = |act: &dyn Fn(&[PathBuf])| {
        if starts_ranks() {
            let files: Option<Vec<_>> = files(&caches).into_iter().collect();
            act(&files.expect("each rank has kept that it has passed"));
        }
    };
    run(0, true);
    run(1, false);
    prepare(&|files| fs::remove_file(&files[1]).expect("it is there"));
    run(2, true);
    run(3, false);
    prepare(&|files| {
        // Of two ranks, in two ways.
        let text = fs::read_to_string(&files[0]).expect("it is text");
        fs::write(&files[0], text.replace("the host, by its boot\t", "the host, by its boot\t0")).expect("it is ours");
        fs::write(&files[2], [0xff; 100_000]).expect("it is ours");
    });
    run(4, true);
    run(5, false);
    prepare(&|files| {
        // Where the folder of the cache would be, there is a file: nothing can be read or kept.
        let folder = files[2].parent().expect("a folder");
        fs::remove_dir_all(folder).expect("it is ours");
        fs::write(folder, "no folder").expect("it is ours");
    });
    run(6, true);
    run(7, true);
    if starts_ranks() {
        let kept: Vec<_> = files(&caches).iter().map(Option::is_some).collect();
        assert_eq!(kept, [true, true, false]);
    }
}
