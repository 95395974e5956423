//! What is done to the terms of all ranks, as users name it and as kernels are told.

/// The reduction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ReduceOp {
    /// The sum. Of integers it wraps.
    #[default]
    Sum,
    /// The product. Of integers it wraps.
    Product,
    /// The smallest; of floating-point numbers NaN if one of them is, and -0.0 is less than 0.0.
    Min,
    /// The largest; of floating-point numbers NaN if one of them is, and -0.0 is less than 0.0.
    Max,
    /// The sum divided by the number of ranks: of floating-point numbers the sum times its reciprocal, of integers the sum, which wraps, divided
    /// and rounded towards 0.
    Avg,
}

impl ReduceOp {
    /// Every operation there is, in the order of declaration.
    pub const ALL: [ReduceOp; 5] = [ReduceOp::Sum, ReduceOp::Product, ReduceOp::Min, ReduceOp::Max, ReduceOp::Avg];

    /// The name that users have for it.
    pub const fn name(self) -> &'static str {
        match self {
            ReduceOp::Sum => "sum",
            ReduceOp::Product => "product",
            ReduceOp::Min => "min",
            ReduceOp::Max => "max",
            ReduceOp::Avg => "avg",
        }
    }
}

/// An operation on signed or on unsigned integers; of floating-point numbers the sign says nothing. As a kernel's argument it is a word with a bit
/// for each: what a kernel asks it is then the look at a bit, and no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reduction(pub u16);

/// The bit that says that integers have no sign.
const UNSIGNED: u16 = 1 << ReduceOp::ALL.len();

impl Reduction {
    /// The sum, of whatever: with a sign and without it is the same.
    pub const SUM: Reduction = Reduction::of(ReduceOp::Sum, false);

    /// `op`, on integers without a sign or on anything else.
    pub const fn of(op: ReduceOp, unsigned: bool) -> Reduction {
        Reduction(1 << op as u16 | if unsigned { UNSIGNED } else { 0 })
    }

    /// Whether it is `op`.
    #[inline(always)]
    pub const fn is(self, op: ReduceOp) -> bool {
        self.0 & 1 << op as u16 != 0
    }

    /// Whether it is the least or the greatest of all.
    #[inline(always)]
    pub const fn is_order(self) -> bool {
        self.0 & (1 << ReduceOp::Min as u16 | 1 << ReduceOp::Max as u16) != 0
    }

    /// Whether integers have no sign.
    #[inline(always)]
    pub const fn is_unsigned(self) -> bool {
        self.0 & UNSIGNED != 0
    }
}

const _: () = {
    let mut index = 0;
    while index < ReduceOp::ALL.len() {
        assert!(ReduceOp::ALL[index] as usize == index, "ALL is in the order of declaration");
        index += 1;
    }
};
