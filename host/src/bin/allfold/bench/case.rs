//! One size: verified on random input, then on stamps call after call, then timed, then verified again.

use allfold::ReduceOp;
use anyhow::Result;

use super::guarded::Guarded;
use super::oracle::{Real, Sums, differing_elems, randomise, wrong_elems};
use crate::mix::mix;

/// Sets of buffers that calls take in turn, so that consecutive calls have different inputs.
pub const SETS: usize = 2;

/// How many calls are made one by one.
#[derive(Clone, Copy, Debug)]
pub struct Repeats {
    /// Calls before those that are timed.
    pub warmup: usize,
    /// Calls that are timed.
    pub timed: usize,
}

/// One of a rank's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Input,
    Output,
}

/// The memory and the calls of one backend, for one size: `SETS` sets of an input and an output a rank. In place, a
/// rank's input is its output.
pub trait Bed {
    /// What a call says of how it was done.
    type Plan;
    /// What its sums may be.
    fn sums(&self) -> Sums;
    /// Copies `image` to a buffer.
    fn write(&mut self, set: usize, rank: usize, side: Side, image: &Guarded) -> Result<()>;
    /// Copies a buffer to `image`.
    fn read(&self, set: usize, rank: usize, side: Side, image: &mut Guarded) -> Result<()>;
    /// One call on a set, done on return.
    fn call(&mut self, set: usize) -> Result<Self::Plan>;
    /// Many calls, the sets in turn, each on stamps of its own and checked after it; returns the wrong elements.
    fn stamped(&mut self) -> Result<u64>;
    /// Many calls, the sets in turn, timed: `[rank]`, microseconds a call.
    fn timed(&mut self) -> Result<Vec<Vec<f64>>>;
    /// That no wait was given up so far.
    fn check(&self) -> Result<()>;
}

/// What came out of one size.
#[derive(Debug)]
pub struct Measured<P> {
    /// How its calls were done.
    pub plan: P,
    /// `[rank]`, microseconds a call.
    pub samples: Vec<Vec<f64>>,
    /// Wrong elements in all that was verified.
    pub wrong: u64,
}

/// A size, and where its random input comes from.
pub struct Case {
    pub op: ReduceOp,
    pub world: usize,
    /// Bytes of each rank's input.
    pub bytes: usize,
    pub in_place: bool,
    pub seed: u64,
}

impl Case {
    /// Verifies and times. `said` is called before each step with what it is.
    pub fn run<T: Real, B: Bed>(&self, bed: &mut B, said: impl Fn(&str)) -> Result<Measured<B::Plan>> {
        said("verifying");
        let inputs = self.load::<T>(bed, 0, 0)?;
        let plan = bed.call(0)?;
        bed.check()?;
        let mut wrong = self.wrong::<T>(bed, 0, &inputs)?;
        drop(inputs);

        said("verifying call by call");
        wrong += bed.stamped()?;
        bed.check()?;

        said("loading");
        let loaded = (0..SETS).map(|set| self.load::<T>(bed, set, 1 + set as u64)).collect::<Result<Vec<_>>>()?;
        said("timing");
        let samples = bed.timed()?;
        bed.check()?;

        said("verifying what was timed");
        if self.in_place {
            // The timed calls summed their own sums until these overflowed: what is left to say is that ranks agree.
            for set in 0..SETS {
                wrong += self.disagreeing::<T>(bed, set)?;
            }
            let inputs = self.load::<T>(bed, 0, 1 + SETS as u64)?;
            bed.call(0)?;
            bed.check()?;
            wrong += self.wrong::<T>(bed, 0, &inputs)?;
        } else {
            for (set, inputs) in loaded.iter().enumerate() {
                wrong += self.wrong::<T>(bed, set, inputs)?;
            }
        }
        Ok(Measured { plan, samples, wrong })
    }

    /// Fresh random input for all ranks, and poison where the output will be. Returns the inputs.
    fn load<T: Real>(&self, bed: &mut impl Bed, set: usize, step: u64) -> Result<Vec<Guarded>> {
        let poison = Guarded::poisoned(self.bytes);
        let mut inputs = Vec::with_capacity(self.world);
        for rank in 0..self.world {
            let mut input = poison.clone();
            randomise::<T>(input.data_mut(), mix(mix(self.seed, step), rank as u64));
            bed.write(set, rank, Side::Output, &poison)?;
            bed.write(set, rank, Side::Input, &input)?;
            inputs.push(input);
        }
        Ok(inputs)
    }

    /// Wrong elements after a call on a set with these inputs: results, guard zones, and inputs that changed.
    fn wrong<T: Real>(&self, bed: &impl Bed, set: usize, inputs: &[Guarded]) -> Result<u64> {
        let terms: Vec<&[T]> = inputs.iter().map(Guarded::data).collect();
        let mut first = Guarded::poisoned(self.bytes);
        let mut image = first.clone();
        bed.read(set, 0, Side::Output, &mut first)?;
        let mut wrong = 0;
        for (rank, term) in terms.iter().enumerate() {
            bed.read(set, rank, Side::Output, &mut image)?;
            wrong += wrong_elems::<T>(self.op, &terms, image.data(), first.data(), bed.sums()) + image.damaged::<T>();
            if !self.in_place {
                bed.read(set, rank, Side::Input, &mut image)?;
                wrong += differing_elems::<T>(image.data(), term) + image.damaged::<T>();
            }
        }
        Ok(wrong)
    }

    /// Elements in which a rank differs from rank 0 where none may, and damaged guard zones.
    fn disagreeing<T: Real>(&self, bed: &impl Bed, set: usize) -> Result<u64> {
        let mut first = Guarded::poisoned(self.bytes);
        let mut image = first.clone();
        bed.read(set, 0, Side::Output, &mut first)?;
        let mut wrong = first.damaged::<T>();
        for rank in 1..self.world {
            bed.read(set, rank, Side::Output, &mut image)?;
            wrong += image.damaged::<T>();
            if bed.sums().agree() {
                wrong += differing_elems::<T>(image.data(), first.data());
            }
        }
        Ok(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Side::{Input, Output};

    const WORLD: usize = 3;
    const BYTES: usize = 400;

    /// What a bed does wrong in its calls.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Fault {
        None,
        /// This element of rank 1's output is one unit in the last place off.
        OneUnit(usize),
        /// This element of rank 2's output is not written.
        NotWritten(usize),
        /// The byte behind rank 0's output is written.
        BehindOutput,
        /// The byte before rank 1's input is written.
        BeforeInput,
        /// This element of rank 2's input is written.
        InputChanged(usize),
        /// Only calls that are timed leave this element of rank 0 as it was.
        OnlyTimed(usize),
    }

    /// Sums as the library promises to, but for its fault.
    struct Planted {
        fault: Fault,
        sums: Sums,
        in_place: bool,
        /// `[set][rank]`.
        inputs: Vec<Vec<Guarded>>,
        outputs: Vec<Vec<Guarded>>,
    }

    impl Planted {
        fn new(fault: Fault, sums: Sums, in_place: bool) -> Planted {
            let buffers = || vec![vec![Guarded::poisoned(BYTES); WORLD]; SETS];
            Planted { fault, sums, in_place, inputs: buffers(), outputs: buffers() }
        }

        fn buffer(&mut self, set: usize, rank: usize, side: Side) -> &mut Guarded {
            match side {
                Output if !self.in_place => &mut self.outputs[set][rank],
                Input | Output => &mut self.inputs[set][rank],
            }
        }

        fn sum(&mut self, set: usize, timed: bool) {
            let terms: Vec<Vec<f32>> = self.inputs[set].iter().map(|input| input.data().to_vec()).collect();
            let sums = (0..BYTES / 4).map(|elem| terms.iter().map(|term| term[elem]).sum());
            let sums: Vec<f32> = sums.collect();
            for rank in 0..WORLD {
                let fault = self.fault;
                let output = self.buffer(set, rank, Output).data_mut::<f32>();
                for (elem, &sum) in sums.iter().enumerate() {
                    let here = (rank, elem);
                    let kept = matches!(fault, Fault::NotWritten(at) if here == (2, at))
                        || matches!(fault, Fault::OnlyTimed(at) if timed && here == (0, at));
                    let off = matches!(fault, Fault::OneUnit(at) if here == (1, at));
                    if !kept {
                        output[elem] = if off { sum.next_up() } else { sum };
                    }
                }
            }
            match self.fault {
                Fault::BehindOutput => self.buffer(set, 0, Output).all_mut()[256 + BYTES] = 0,
                Fault::BeforeInput => self.buffer(set, 1, Input).all_mut()[255] = 0,
                Fault::InputChanged(at) => self.buffer(set, 2, Input).data_mut::<f32>()[at] = 0.0,
                Fault::None | Fault::OneUnit(_) | Fault::NotWritten(_) | Fault::OnlyTimed(_) => {}
            }
        }
    }

    impl Bed for Planted {
        type Plan = ();
        fn sums(&self) -> Sums {
            self.sums
        }
        fn write(&mut self, set: usize, rank: usize, side: Side, image: &Guarded) -> Result<()> {
            *self.buffer(set, rank, side) = image.clone();
            Ok(())
        }
        fn read(&self, set: usize, rank: usize, side: Side, image: &mut Guarded) -> Result<()> {
            let output = side == Output && !self.in_place;
            *image = if output { &self.outputs } else { &self.inputs }[set][rank].clone();
            Ok(())
        }
        fn call(&mut self, set: usize) -> Result<()> {
            self.sum(set, false);
            Ok(())
        }
        fn stamped(&mut self) -> Result<u64> {
            Ok(0)
        }
        fn timed(&mut self) -> Result<Vec<Vec<f64>>> {
            (0..SETS).for_each(|set| self.sum(set, true));
            Ok(vec![vec![1.0]; WORLD])
        }
        fn check(&self) -> Result<()> {
            Ok(())
        }
    }

    fn wrong(fault: Fault, sums: Sums, in_place: bool) -> u64 {
        let case = Case { op: ReduceOp::Sum, world: WORLD, bytes: BYTES, in_place, seed: 3 };
        case.run::<f32, _>(&mut Planted::new(fault, sums, in_place), |_| {}).expect("runs").wrong
    }

    #[test]
    fn each_planted_fault_is_counted_in_each_of_the_verified_calls() {
        for (fault, out_of_place, in_place) in [
            (Fault::None, 0, 0),
            (Fault::OneUnit(7), 3, 4),
            (Fault::NotWritten(99), 3, 4),
            (Fault::BehindOutput, 3, 4),
            (Fault::BeforeInput, 3, 4),
            (Fault::InputChanged(0), 3, 4),
            // Rank 0's result is what the others are compared with: they all differ from it.
            (Fault::OnlyTimed(5), 2 * WORLD as u64, 2 * (WORLD as u64 - 1)),
        ] {
            assert_eq!(wrong(fault, Sums::RoundedOnce, false), out_of_place, "{fault:?}, out of place");
            assert_eq!(wrong(fault, Sums::RoundedOnce, true), in_place, "{fault:?}, in place");
        }
    }

    #[test]
    fn sums_in_any_order_may_differ_between_ranks_and_by_no_more_than_rounding() {
        for (fault, out_of_place, in_place) in [
            (Fault::None, 0, 0),
            (Fault::OneUnit(7), 0, 0),
            (Fault::NotWritten(99), 3, 2),
            (Fault::BehindOutput, 3, 4),
            (Fault::InputChanged(0), 3, 2),
            // Only rank 0 is far off; in place nothing is left to compare it with.
            (Fault::OnlyTimed(5), 2, 0),
        ] {
            assert_eq!(wrong(fault, Sums::AnyOrder, false), out_of_place, "{fault:?}, out of place");
            assert_eq!(wrong(fault, Sums::AnyOrder, true), in_place, "{fault:?}, in place");
        }
    }
}
