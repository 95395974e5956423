//! What a wrong element tells: which value of another call would have given this sum.

use allfold::{Dtype, E4m3, E5m2, Epoch, FirstWrong, Rank, bf16, f16, stamp, stamp_sum};
use serde::Serialize;

/// How many calls away a stale or an early value is looked for, the likely ones first: two calls ago is what a staging
/// bank held, the call before what a buffer held, the next what a hasty rank wrote there.
const CALLS_AWAY: [i64; 6] = [-2, -1, 1, 2, -3, -4];

/// The first wrong element that a run met.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Story {
    pub rank: u32,
    pub element: u64,
    /// The number of the call, from 1.
    pub call: u64,
    pub expected: i32,
    pub got: f64,
    /// Each that would explain it, the likely ones first.
    pub explanations: Vec<Explanation>,
}

/// One value of another call in place of the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// Whose value; none: the sum of all.
    pub rank: Option<u32>,
    /// Of which call.
    pub call: u64,
}

impl Story {
    /// What `first`, an element of `dtype` that was found on `rank` of `world`, tells.
    pub fn new(world: u32, rank: u32, dtype: Dtype, first: FirstWrong) -> Story {
        let FirstWrong { elem, bits, epoch: call } = first;
        let got = match dtype {
            Dtype::F32 => f32::from_bits(bits as u32).into(),
            Dtype::F16 => f16::from_bits(bits as u16).to_f64(),
            Dtype::Bf16 => bf16::from_bits(bits as u16).to_f64(),
            Dtype::F64 => f64::from_bits(bits),
            Dtype::E4m3 => E4m3(bits as u8).to_f32().into(),
            Dtype::E5m2 => E5m2(bits as u8).to_f32().into(),
            // Stamps of a type without a sign are what a signed one would be.
            Dtype::I8 | Dtype::U8 => (bits as i8).into(),
            Dtype::I32 | Dtype::U32 => (bits as i32).into(),
            Dtype::I64 | Dtype::U64 => bits.cast_signed() as f64,
        };
        let expected = stamp_sum(world, elem, Epoch(call));
        let mut explanations = Vec::new();
        for other in CALLS_AWAY.iter().filter_map(|&away| call.checked_add_signed(away)).filter(|&other| other > 0) {
            // Sums of a few small integers: exact.
            for owner in 0..world {
                let value = |call| stamp(Rank(owner), elem, Epoch(call));
                if f64::from(expected - value(call) + value(other)) == got {
                    explanations.push(Explanation { rank: Some(owner), call: other });
                }
            }
            if f64::from(stamp_sum(world, elem, Epoch(other))) == got {
                explanations.push(Explanation { rank: None, call: other });
            }
        }
        Story { rank, element: first.elem, call, expected, got, explanations }
    }

    /// In one sentence.
    pub fn text(&self) -> String {
        let Story { rank, element, call, expected, got, explanations } = self;
        let because = |Explanation { rank, call }: &Explanation| match rank {
            Some(owner) => format!("rank {owner}'s value were that of call {call}"),
            None => format!("the sum were that of call {call}"),
        };
        let why = match explanations.iter().map(because).collect::<Vec<_>>().join(", or ") {
            none if none.is_empty() => "explained by no single stale value".to_owned(),
            some => format!("as if {some}"),
        };
        format!("rank {rank}, element {element} of call {call}: expected {expected}, got {got}, {why}")
    }

    /// For a column: the likeliest explanation, calls counted from this one.
    pub fn short(&self) -> String {
        let Some(&Explanation { rank, call }) = self.explanations.first() else { return "unexplained".to_owned() };
        let away = call.wrapping_sub(self.call) as i64;
        match rank {
            Some(owner) => format!("rank {owner}, call {away:+}"),
            None => format!("sum, call {away:+}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn story(world: u32, elem: u64, call: u64, got: i32) -> Story {
        let bits = bf16::from_f32(got as f32).to_bits().into();
        Story::new(world, 1, Dtype::Bf16, FirstWrong { elem, bits, epoch: call })
    }

    #[test]
    fn a_planted_stale_value_is_found() {
        for world in [2, 3, 8] {
            for away in CALLS_AWAY {
                let (elem, call, owner) = (4711, 812_u64, world - 1);
                let other = call.wrapping_add_signed(away);
                let value = |call| stamp(Rank(owner), elem, Epoch(call));
                let got = stamp_sum(world, elem, Epoch(call)) - value(call) + value(other);
                let story = story(world, elem, call, got);
                let planted = Explanation { rank: Some(owner), call: other };
                assert!(story.explanations.contains(&planted), "{away}: {story:?}");
                assert!(story.text().contains(&format!("rank {owner}'s value were that of call {other}")), "{story:?}");
            }
        }
    }

    #[test]
    fn what_was_got_is_read_as_an_element() {
        let got = |dtype, bits| Story::new(2, 0, dtype, FirstWrong { elem: 1, bits, epoch: 1 }).got;
        assert_eq!([got(Dtype::F32, 0xbfc0_0000), got(Dtype::F16, 0xbe00), got(Dtype::Bf16, 0xbfc0)], [-1.5; 3]);
        assert_eq!([got(Dtype::I32, 0xffff_fff9), got(Dtype::U8, 0xf9), got(Dtype::I64, u64::MAX - 6)], [-7.0; 3]);
        assert_eq!([got(Dtype::E4m3, 0xbc), got(Dtype::E5m2, 0xbe), got(Dtype::F64, (-1.5_f64).to_bits())], [-1.5; 3]);
    }

    #[test]
    fn a_whole_sum_of_another_call_is_found() {
        let got = stamp_sum(4, 99, Epoch(6));
        assert!(story(4, 99, 7, got).explanations.contains(&Explanation { rank: None, call: 6 }));
    }

    #[test]
    fn every_explanation_gives_what_was_got() {
        for got in -16..15 {
            for Explanation { rank, call } in story(2, 5, 3, got).explanations {
                assert!(call > 0, "there was no call 0");
                let sum = |call| stamp_sum(2, 5, Epoch(call));
                let value = |owner, call| stamp(Rank(owner), 5, Epoch(call));
                let explained = rank.map_or(sum(call), |owner| sum(3) - value(owner, 3) + value(owner, call));
                assert_eq!(explained, got);
            }
        }
    }

    #[test]
    fn what_nothing_explains_is_said_so() {
        let story = story(2, 7, 100, 96);
        assert_eq!(story.explanations, []);
        assert!(story.text().ends_with("got 96, explained by no single stale value"), "{}", story.text());
        assert_eq!(story.short(), "unexplained");
    }

    #[test]
    fn a_column_counts_from_the_call() {
        let explanations = vec![Explanation { rank: Some(0), call: 810 }];
        let story = Story { rank: 1, element: 4711, call: 812, expected: 12, got: 7.0, explanations };
        let text = "rank 1, element 4711 of call 812: expected 12, got 7, as if rank 0's value were that of call 810";
        assert_eq!((story.text().as_str(), story.short().as_str()), (text, "rank 0, call -2"));
    }
}
