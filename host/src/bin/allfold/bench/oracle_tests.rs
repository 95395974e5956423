//! Tests of what a sum may be: right sums pass, planted errors are counted.

use super::*;

/// The sum as the library promises it: in rank order, in f32, rounded once.
fn rank_order_sum<T: Real>(inputs: &[Vec<T>]) -> Vec<T> {
    let sum = |elem: usize| {
        inputs.iter().fold(None, |sum: Option<f32>, input| {
            let term = input[elem].to_f64() as f32;
            Some(sum.map_or(term, |sum| sum + term))
        })
    };
    (0..inputs[0].len()).map(|elem| T::from_f32(sum(elem).unwrap_or_default())).collect()
}

fn inputs<T: Real>(world: usize, elems: usize) -> Vec<Vec<T>> {
    let zeros = || vec![T::from_f32(0.0); elems];
    (0..world as u64).map(|rank| zeros().tap(|data| randomise(data, mix(7, rank)))).collect()
}

trait Tap: Sized {
    fn tap(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}
impl<T> Tap for Vec<T> {}

fn wrong<T: Real>(inputs: &[Vec<T>], got: &[T], first: &[T]) -> u64 {
    let inputs: Vec<&[T]> = inputs.iter().map(Vec::as_slice).collect();
    wrong_elems(ReduceOp::Sum, &inputs, got, first, Sums::RoundedOnce)
}

fn a_right_sum_passes_and_planted_errors_are_counted<T: Real>() {
    for world in 1..=8 {
        let inputs = inputs::<T>(world, 200_000);
        let right = rank_order_sum(&inputs);
        assert_eq!(wrong(&inputs, &right, &right), 0, "{world} ranks");
        let mut planted = right.clone();
        planted[0] = T::from_f32(40.0);
        planted[123_456] = T::from_f32(f32::NAN);
        planted[199_999] = T::from_f32(-40.0);
        assert_eq!(wrong(&inputs, &planted, &planted), 3, "{world} ranks");
        assert_eq!(wrong(&inputs, &right, &planted), 3, "right, but not what rank 0 has");
        // One rank's term left out: almost every element shows it.
        if world > 1 {
            let short = rank_order_sum(&inputs[1..]);
            assert!(wrong(&inputs, &short, &short) > 190_000, "{world} ranks");
        }
    }
}

#[test]
fn f32() {
    a_right_sum_passes_and_planted_errors_are_counted::<f32>();
}

#[test]
fn f16() {
    a_right_sum_passes_and_planted_errors_are_counted::<f16>();
}

#[test]
fn bf16() {
    a_right_sum_passes_and_planted_errors_are_counted::<bf16>();
}

#[test]
fn an_integer_sum_is_exact() {
    let inputs = inputs::<i32>(8, 1000);
    let right: Vec<i32> = (0..1000).map(|elem| inputs.iter().map(|input| input[elem]).sum()).collect();
    assert_eq!(wrong(&inputs, &right, &right), 0);
    let far: Vec<i32> = right.iter().map(|sum| sum + 1).collect();
    assert_eq!(wrong(&inputs, &far, &far), 1000);
}

#[test]
fn every_operation_has_its_right_results_and_others_are_counted() {
    fn check<T: Real>(few: [f32; 3], results: [(ReduceOp, f32); 5]) {
        let inputs = few.map(|value| [T::from_f32(value)]);
        let refs: Vec<&[T]> = inputs.iter().map(|input| &input[..]).collect();
        for (op, result) in results {
            for sums in [Sums::RoundedOnce, Sums::AnyOrder] {
                let wrong = |value| {
                    let got = [T::from_f32(value)];
                    wrong_elems(op, &refs, &got, &got, sums)
                };
                assert_eq!(wrong(result), 0, "{:?} {op:?}", T::DTYPE);
                assert_eq!(wrong(result * 2.0 + 3.0), 1, "{:?} {op:?}", T::DTYPE);
            }
        }
    }
    use ReduceOp::{Avg, Max, Min, Product, Sum};
    let all = |sum, average| [(Sum, sum), (Product, 16.0), (Min, 1.0), (Max, 8.0), (Avg, average)];
    check::<f32>([1.0, 8.0, 2.0], all(11.0, 11.0 / 3.0));
    check::<E4m3>([1.0, 8.0, 2.0], all(11.0, 11.0 / 3.0));
    check::<E5m2>([1.0, 8.0, 2.0], all(11.0, 11.0 / 3.0));
    check::<i8>([1.0, 8.0, 2.0], all(11.0, 3.0));
    check::<u64>([1.0, 8.0, 2.0], all(11.0, 3.0));
}

/// 1 + 2 is exact; the next value up is one unit too far.
#[test]
fn one_unit_in_the_last_place_too_far_is_caught() {
    fn next_up<T: Real>(next: impl Fn(u32) -> T) {
        let inputs = [vec![T::from_f32(1.0)], vec![T::from_f32(2.0)]];
        let right = vec![T::from_f32(3.0)];
        assert_eq!(wrong(&inputs, &right, &right), 0);
        for bits in [right[0].bits() + 1, right[0].bits() - 1] {
            let far = vec![next(bits as u32)];
            assert_eq!(wrong(&inputs, &far, &far), 1, "{:?}", T::DTYPE);
        }
    }
    next_up(|bits| f16::from_bits(bits as u16));
    next_up(|bits| bf16::from_bits(bits as u16));
}

/// f32 may be off by `world` roundings, here one and a half units in the last place, and by no more.
#[test]
fn one_unit_beyond_the_bound_is_caught_in_f32() {
    let inputs = [vec![1.0_f32], vec![2.0]];
    let unit = 3.0_f32.next_up() - 3.0;
    for (units, expected) in [(0.0, 0), (1.0, 0), (2.0, 1), (-1.0, 0), (-2.0, 1)] {
        let got = 3.0 + units * unit;
        assert_eq!(wrong(&inputs, &[got], &[got]), expected, "{units} units");
    }
}

#[test]
fn rounding_at_every_step_passes_in_any_order_and_a_term_left_out_does_not() {
    fn check<T: Real>() {
        let inputs = inputs::<T>(8, 10_000);
        let refs: Vec<&[T]> = inputs.iter().map(Vec::as_slice).collect();
        let sum = |terms: &[&[T]]| -> Vec<T> {
            let add = |sum: f64, term: &&[T], elem: usize| T::from_f32((sum + term[elem].to_f64()) as f32).to_f64();
            let of = |elem| terms.iter().rev().fold(0.0, |sum, term| add(sum, term, elem));
            (0..10_000).map(|elem| T::from_f32(of(elem) as f32)).collect()
        };
        let got = sum(&refs);
        assert_eq!(wrong_elems(ReduceOp::Sum, &refs, &got, &inputs[0], Sums::AnyOrder), 0, "{:?}", T::DTYPE);
        assert!(
            wrong_elems(ReduceOp::Sum, &refs, &got, &got, Sums::RoundedOnce) > 0,
            "{:?}: once more is too much",
            T::DTYPE
        );
        let short = sum(&refs[1..]);
        assert!(wrong_elems(ReduceOp::Sum, &refs, &short, &short, Sums::AnyOrder) > 5000, "{:?}", T::DTYPE);
    }
    check::<f16>();
    check::<bf16>();
}

#[test]
fn the_bound_is_half_a_unit_in_16_bits() {
    assert_eq!(half_ulp::<bf16>(1.0), 2f64.powi(-8));
    assert_eq!(half_ulp::<bf16>(1.99), 2f64.powi(-8));
    assert_eq!(half_ulp::<f16>(2.0), 2f64.powi(-10));
    assert_eq!(half_ulp::<f16>(0.0), 2f64.powi(-25), "half the smallest subnormal");
}

#[test]
fn input_differs_by_seed_and_is_not_all_of_one_sign() {
    let [mut a, mut b] = [vec![0.0_f32; 1000], vec![0.0; 1000]];
    randomise(&mut a, 1);
    randomise(&mut b, 2);
    assert!(differing_elems(&a, &b) > 990);
    assert!(a.iter().all(|x| (-1.0..1.0).contains(x)));
    assert!((300..700).contains(&a.iter().filter(|&&x| x < 0.0).count()));
}
