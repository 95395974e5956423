//! What comes after a failure: an error in this call and in every later one, and a fresh communicator that works.

use std::time::{Duration, Instant};

use allfold::{Communicator, Delays, Dtype, Element, Error, Options, RankBuffers, ReduceOp};
use half::bf16;

fn call<T: Element + From<u8>>(comm: &mut Communicator) -> Result<Vec<Vec<T>>, Error> {
    let mut data = vec![vec![T::from(1); 1 << 14]; comm.world()];
    let buffers: Vec<_> = data.iter_mut().map(|d| RankBuffers::in_place(d)).collect();
    comm.all_reduce(&buffers, ReduceOp::Sum)?;
    drop(buffers);
    Ok(data)
}

#[test]
fn a_wait_that_is_given_up_is_an_error_and_ends_the_communicator() {
    let delays = Some(Delays { nanoseconds: 10_000_000, one_in: 4 });
    let timeout = Some(Duration::from_millis(1));
    let options = Options { timeout, delays, dtypes: vec![Dtype::Bf16], ..Options::default() };
    let mut comm = Communicator::cpu_with(8, options).expect("eight ranks");
    let error = (0..1000).find_map(|_| call::<bf16>(&mut comm).err()).expect("no wait was given up in 1000 calls");
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    for _ in 0..3 {
        let again = call::<bf16>(&mut comm).expect_err("the communicator is at its end");
        assert_eq!(again.to_string(), error.to_string());
    }
    let mut fresh = Communicator::cpu(8).expect("eight ranks");
    assert!(call::<f32>(&mut fresh).expect("it works").iter().flatten().all(|&x| x == 8.0));
}

#[test]
fn planted_delays_take_their_time_and_change_nothing() {
    let delays = Some(Delays { nanoseconds: 20_000_000, one_in: 1 });
    let mut comm = Communicator::cpu_with(2, Options { delays, dtypes: vec![Dtype::Bf16], ..Options::default() })
        .expect("two ranks");
    let mut data = vec![vec![half::bf16::ONE; 100]; 2];
    let buffers: Vec<_> = data.iter_mut().map(|d| RankBuffers::in_place(d)).collect();
    let begun = Instant::now();
    comm.all_reduce(&buffers, ReduceOp::Sum).expect("late, and right");
    assert!(begun.elapsed() >= Duration::from_millis(80), "{:?}", begun.elapsed());
    drop(buffers);
    assert!(data.iter().flatten().all(|x| x.to_f32() == 2.0));

    let refused = Communicator::cpu_with(2, Options { delays, ..Options::default() }).expect_err("f32 has no delays");
    assert!(matches!(refused, Error::NotDeclared { .. }), "{refused}");
}
