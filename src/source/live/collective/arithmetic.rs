//! Putting elements together, on the CPU: for buffers in the host's memory.

use crate::bench::collective::{DataType, Reduction};

/// `into[i] = with[i] op came[i]`, all three of one length, a multiple of the element's size; without `with`, `into[i] = into[i] op came[i]`.
pub fn combine(dtype: DataType, op: Reduction, into: &mut [u8], with: Option<&[u8]>, came: &[u8]) {
    match dtype {
        DataType::Float32 => by_op::<f32, 4>(op, into, with, came),
        DataType::Int32 => by_op::<i32, 4>(op, into, with, came),
        DataType::Uint8 => by_op::<u8, 1>(op, into, with, came),
        DataType::Float16 => by_op::<Half, 2>(op, into, with, came),
        DataType::Bfloat16 => by_op::<Brain, 2>(op, into, with, came),
    }
}

/// An element of so many bytes.
trait Element<const BYTES: usize>: Copy {
    fn read(bytes: [u8; BYTES]) -> Self;
    fn write(self) -> [u8; BYTES];
    fn sum(self, other: Self) -> Self;
    fn least(self, other: Self) -> Self;
    fn greatest(self, other: Self) -> Self;
}

/// A loop for each operation, without a choice in it: the compiler makes vectors of it.
fn by_op<E: Element<N>, const N: usize>(
    op: Reduction,
    into: &mut [u8],
    with: Option<&[u8]>,
    came: &[u8],
) {
    match op {
        Reduction::Sum => each(into, with, came, E::sum),
        Reduction::Min => each(into, with, came, E::least),
        Reduction::Max => each(into, with, came, E::greatest),
    }
}

fn each<E: Element<N>, const N: usize>(
    into: &mut [u8],
    with: Option<&[u8]>,
    came: &[u8],
    op: impl Fn(E, E) -> E,
) {
    let (into, _) = into.as_chunks_mut::<N>();
    let (came, _) = came.as_chunks::<N>();
    match with {
        Some(with) => {
            let (with, _) = with.as_chunks::<N>();
            for ((into, with), came) in into.iter_mut().zip(with).zip(came) {
                *into = op(E::read(*with), E::read(*came)).write();
            }
        }
        None => {
            for (into, came) in into.iter_mut().zip(came) {
                *into = op(E::read(*into), E::read(*came)).write();
            }
        }
    }
}

impl Element<4> for f32 {
    fn read(bytes: [u8; 4]) -> Self {
        f32::from_ne_bytes(bytes)
    }
    fn write(self) -> [u8; 4] {
        self.to_ne_bytes()
    }
    fn sum(self, other: Self) -> Self {
        self + other
    }
    fn least(self, other: Self) -> Self {
        self.min(other)
    }
    fn greatest(self, other: Self) -> Self {
        self.max(other)
    }
}

impl Element<4> for i32 {
    fn read(bytes: [u8; 4]) -> Self {
        i32::from_ne_bytes(bytes)
    }
    fn write(self) -> [u8; 4] {
        self.to_ne_bytes()
    }
    fn sum(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    fn least(self, other: Self) -> Self {
        self.min(other)
    }
    fn greatest(self, other: Self) -> Self {
        self.max(other)
    }
}

impl Element<1> for u8 {
    fn read([byte]: [u8; 1]) -> Self {
        byte
    }
    fn write(self) -> [u8; 1] {
        [self]
    }
    fn sum(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    fn least(self, other: Self) -> Self {
        self.min(other)
    }
    fn greatest(self, other: Self) -> Self {
        self.max(other)
    }
}

/// A 16-bit type, counted with as single precision and rounded after each operation.
macro_rules! sixteen_bits {
    ($name:ident, $widen:ident, $narrow:ident) => {
        #[derive(Clone, Copy)]
        struct $name(f32);

        impl Element<2> for $name {
            fn read(bytes: [u8; 2]) -> Self {
                $name($widen(u16::from_ne_bytes(bytes)))
            }
            fn write(self) -> [u8; 2] {
                $narrow(self.0).to_ne_bytes()
            }
            fn sum(self, other: Self) -> Self {
                $name(self.0 + other.0)
            }
            fn least(self, other: Self) -> Self {
                $name(self.0.min(other.0))
            }
            fn greatest(self, other: Self) -> Self {
                $name(self.0.max(other.0))
            }
        }
    };
}

sixteen_bits!(Half, from_half, to_half);
sixteen_bits!(Brain, from_bfloat16, to_bfloat16);

/// bfloat16 is the upper half of single precision.
pub fn from_bfloat16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Rounded to the nearest, a tie to the even one.
pub fn to_bfloat16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    let odd = bits >> 16 & 1;
    (bits.wrapping_add(0x7fff + odd) >> 16) as u16
}

/// IEEE half precision: 5 bits of exponent, 10 of the fraction.
pub fn from_half(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let (exponent, fraction) = (bits >> 10 & 0x1f, u32::from(bits & 0x3ff));
    match exponent {
        // Multiples of 2^-24: exact in single precision.
        0 => f32::from_bits(sign | (fraction as f32 * f32::powi(2.0, -24)).to_bits()),
        0x1f => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (u32::from(exponent) + 112) << 23 | fraction << 13),
    }
}

/// Rounded to the nearest, a tie to the even one; beyond the greatest it is infinite.
pub fn to_half(value: f32) -> u16 {
    let sign = (value.to_bits() >> 16 & 0x8000) as u16;
    let size = value.abs();
    if size.is_nan() {
        return sign | 0x7e00;
    }
    let bits = size.to_bits();
    if bits >= 0x4780_0000 {
        // 2^16 and more.
        return sign | 0x7c00;
    }
    if bits < 0x3880_0000 {
        // Less than 2^-14: a multiple of 2^-24. The addition rounds.
        let shifted = size + f32::powi(2.0, -1);
        return sign | (shifted.to_bits() - f32::powi(2.0, -1).to_bits()) as u16;
    }
    let odd = bits >> 13 & 1;
    // A carry out of the fraction goes on into the exponent, as far as infinity.
    sign | ((bits - (112 << 23) + 0xfff + odd) >> 13) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done<const N: usize, T: Copy>(
        dtype: DataType,
        op: Reduction,
        (a, b): (&[T], &[T]),
        bytes: fn(T) -> [u8; N],
    ) -> Vec<u8> {
        let raw = |values: &[T]| values.iter().flat_map(|v| bytes(*v)).collect::<Vec<u8>>();
        let (a, b) = (raw(a), raw(b));
        let mut three = vec![0; a.len()];
        combine(dtype, op, &mut three, Some(&a), &b);
        let mut two = a;
        combine(dtype, op, &mut two, None, &b);
        assert_eq!(two, three, "{dtype:?} {op:?}");
        two
    }

    #[test]
    fn each_type_has_its_sum_least_and_greatest() {
        let floats = (&[1.5f32, -2.0, 1e9][..], &[0.25f32, 7.0, -1.0][..]);
        for (op, expected) in [
            (Reduction::Sum, [1.75f32, 5.0, 999_999_999.0]),
            (Reduction::Min, [0.25, -2.0, -1.0]),
            (Reduction::Max, [1.5, 7.0, 1e9]),
        ] {
            let expected: Vec<u8> = expected.iter().flat_map(|v| v.to_ne_bytes()).collect();
            assert_eq!(
                done(DataType::Float32, op, floats, f32::to_ne_bytes),
                expected
            );
        }
        let bytes = (&[250u8, 3][..], &[10u8, 4][..]);
        let sum = done(DataType::Uint8, Reduction::Sum, bytes, |b| [b]);
        assert_eq!(sum, [4, 7], "bytes wrap");
        let max = done(DataType::Uint8, Reduction::Max, bytes, |b| [b]);
        assert_eq!(max, [250, 4]);
        let integers = (&[i32::MAX, -5][..], &[1, 2][..]);
        let sum = done(DataType::Int32, Reduction::Sum, integers, i32::to_ne_bytes);
        assert_eq!(sum[..4], i32::MIN.to_ne_bytes());
        let least = done(DataType::Int32, Reduction::Min, integers, i32::to_ne_bytes);
        assert_eq!(least[4..], (-5i32).to_ne_bytes());
        for (dtype, narrow) in [
            (DataType::Float16, to_half as fn(f32) -> u16),
            (DataType::Bfloat16, to_bfloat16),
        ] {
            let of = |values: [f32; 2]| values.map(narrow);
            let sum = done(
                dtype,
                Reduction::Sum,
                (&of([1.5, 100.0]), &of([2.0, 28.0])),
                u16::to_ne_bytes,
            );
            let expected: Vec<u8> = of([3.5, 128.0])
                .iter()
                .flat_map(|v| v.to_ne_bytes())
                .collect();
            assert_eq!(sum, expected, "{dtype:?}");
        }
    }

    #[test]
    fn sixteen_bits_lead_back() {
        for bits in 0..=u16::MAX {
            if !from_half(bits).is_nan() {
                assert_eq!(to_half(from_half(bits)), bits, "{bits:#06x}");
            }
            if !from_bfloat16(bits).is_nan() {
                assert_eq!(to_bfloat16(from_bfloat16(bits)), bits, "{bits:#06x}");
            }
        }
        assert!(from_half(to_half(f32::NAN)).is_nan());
        assert!(from_bfloat16(to_bfloat16(f32::NAN)).is_nan());
    }

    #[test]
    fn values_in_between_are_rounded_to_the_even_one() {
        for (value, expected) in [
            (2049.0f32, 2048.0f32),
            (2051.0, 2052.0),
            (65504.0, 65504.0),
            (65520.0, f32::INFINITY),
            (1e9, f32::INFINITY),
            (f32::powi(2.0, -25), 0.0),
            (1.5 * f32::powi(2.0, -24), f32::powi(2.0, -23)),
            (-0.1, -0.099_975_586),
        ] {
            assert_eq!(from_half(to_half(value)), expected, "{value}");
        }
        assert_eq!(from_bfloat16(to_bfloat16(257.0)), 256.0);
        assert_eq!(from_bfloat16(to_bfloat16(259.0)), 260.0);
    }
}
