//! The values: element types and how they are put together.

/// `ncclDataType_t`, as far as there is arithmetic for it.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Type {
    U8,
    I32,
    F16,
    F32,
    Bf16,
}

/// `ncclRedOp_t`.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Op {
    Sum,
    Prod,
    Max,
    Min,
}

impl Type {
    pub(crate) fn of(number: u32) -> Option<Type> {
        Some(match number {
            1 => Type::U8,
            2 => Type::I32,
            6 => Type::F16,
            7 => Type::F32,
            9 => Type::Bf16,
            _ => return None,
        })
    }

    pub(crate) fn size(self) -> usize {
        match self {
            Type::U8 => 1,
            Type::F16 | Type::Bf16 => 2,
            Type::I32 | Type::F32 => 4,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Type::U8 => "ncclUint8",
            Type::I32 => "ncclInt32",
            Type::F16 => "ncclFloat16",
            Type::F32 => "ncclFloat32",
            Type::Bf16 => "ncclBfloat16",
        }
    }
}

impl Op {
    pub(crate) fn of(number: u32) -> Option<Op> {
        Some(match number {
            0 => Op::Sum,
            1 => Op::Prod,
            2 => Op::Max,
            3 => Op::Min,
            _ => return None,
        })
    }

    fn int(self, a: i32, b: i32) -> i32 {
        match self {
            Op::Sum => a.wrapping_add(b),
            Op::Prod => a.wrapping_mul(b),
            Op::Max => a.max(b),
            Op::Min => a.min(b),
        }
    }

    fn byte(self, a: u8, b: u8) -> u8 {
        match self {
            Op::Sum => a.wrapping_add(b),
            Op::Prod => a.wrapping_mul(b),
            Op::Max => a.max(b),
            Op::Min => a.min(b),
        }
    }

    fn float(self, a: f32, b: f32) -> f32 {
        match self {
            Op::Sum => a + b,
            Op::Prod => a * b,
            Op::Max => a.max(b),
            Op::Min => a.min(b),
        }
    }
}

/// A plain loop: the stand-ins are built without optimisation, where iterators cost ten times as much.
macro_rules! each {
    ($number:ty, $into:expr, $from:expr, |$a:ident, $b:ident| $put:expr) => {{
        let mut into = $into.as_mut_ptr().cast::<$number>();
        let mut from = $from.as_ptr().cast::<$number>();
        // SAFETY: both have so many elements, and lie at multiples of their size.
        unsafe {
            let end = from.add($into.len().min($from.len()) / size_of::<$number>());
            while from < end {
                let ($a, $b) = (*into, *from);
                *into = $put;
                into = into.add(1);
                from = from.add(1);
            }
        }
    }};
}

/// Puts `from` to what `into` holds, element by element; both are of one type, and as long as each other.
pub(crate) fn reduce(dtype: Type, op: Op, into: &mut [u8], from: &[u8]) {
    match (dtype, op) {
        (Type::F32, Op::Sum) => each!(f32, into, from, |a, b| a + b),
        (Type::F32, Op::Prod) => each!(f32, into, from, |a, b| a * b),
        (Type::F32, Op::Max) => each!(f32, into, from, |a, b| if b > a { b } else { a }),
        (Type::F32, Op::Min) => each!(f32, into, from, |a, b| if b < a { b } else { a }),
        (Type::I32, _) => each!(i32, into, from, |a, b| op.int(a, b)),
        (Type::U8, _) => each!(u8, into, from, |a, b| op.byte(a, b)),
        (Type::F16, _) => each!(u16, into, from, |a, b| to_half(
            op.float(from_half(a), from_half(b))
        )),
        (Type::Bf16, _) => each!(u16, into, from, |a, b| to_brain(
            op.float(from_brain(a), from_brain(b))
        )),
    }
}

fn from_brain(brain: u16) -> f32 {
    f32::from_bits(u32::from(brain) << 16)
}

/// IEEE half precision.
fn from_half(half: u16) -> f32 {
    let sign = if half >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(half >> 10 & 31), f32::from(half & 1023));
    match exponent {
        0 => sign * fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => sign * f32::INFINITY,
        31 => f32::NAN,
        _ => sign * (1.0 + fraction / 1024.0) * 2f32.powi(exponent - 15),
    }
}

/// The nearest half, ties to even.
fn to_half(value: f32) -> u16 {
    let sign = (value.to_bits() >> 16 & 0x8000) as u16;
    let size = value.abs();
    if size.is_nan() {
        return sign | 0x7e00;
    }
    if size >= 65520.0 {
        return sign | 0x7c00;
    }
    // Below the smallest exponent halves lie evenly.
    let exponent = (size.to_bits() >> 23) as i32 - 127;
    let unit = 2f32.powi(exponent.max(-14) - 10);
    let units = (size / unit).round_ties_even() as u16;
    let exponent = exponent.max(-14) + 14;
    // Of 1024 units or more the first is the exponent's, and one too many carries into it.
    sign | ((exponent as u16) << 10).wrapping_add(units)
}

/// The nearest bfloat16, ties to even.
fn to_brain(value: f32) -> u16 {
    let bits = value.to_bits();
    let rest = bits & 0xffff;
    let up = rest > 0x8000 || (rest == 0x8000 && bits >> 16 & 1 == 1);
    (bits >> 16) as u16 + u16::from(up)
}
