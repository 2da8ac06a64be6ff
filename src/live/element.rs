//! Elements put together in the host's memory, in the machine's byte order.
#![expect(unsafe_code, reason = "vectors are loaded and stored by address")]

use crate::measure::plan::collective::{DataType, Reduction};

/// Half precision from single, rounded to the nearest, ties to even (IEEE 754).
pub fn to_half(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return sign | 0x7e00;
    }
    // 65520 and more is infinite.
    if magnitude >= 0x477f_f000 {
        return sign | 0x7c00;
    }
    if magnitude < 0x3880_0000 {
        // Subnormal: units of 2^-24. The sum is exact in single precision up to the rounding that is wanted.
        let units = f32::from_bits(magnitude) + 0.5;
        return sign | (units.to_bits() - 0.5f32.to_bits()) as u16;
    }
    let even = (magnitude >> 13) & 1;
    let rounded = magnitude + 0xfff + even - (112 << 23);
    sign | (rounded >> 13) as u16
}

/// Single precision from half.
pub fn from_half(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let exponent = u32::from(bits >> 10) & 0x1f;
    let fraction = u32::from(bits & 0x3ff);
    match exponent {
        0 => {
            let value = fraction as f32 / 16_777_216.0;
            f32::from_bits(value.to_bits() | sign)
        }
        0x1f => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

/// bfloat16 from single precision, rounded to the nearest, ties to even.
pub fn to_bfloat(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    let even = (bits >> 16) & 1;
    (bits.wrapping_add(0x7fff + even) >> 16) as u16
}

/// Single precision from bfloat16.
pub fn from_bfloat(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Writes a small whole number as an element: all types hold those up to 256.
pub fn write(dtype: DataType, value: u8, into: &mut Vec<u8>) {
    match dtype {
        DataType::Float32 => into.extend(f32::from(value).to_ne_bytes()),
        DataType::Float16 => into.extend(to_half(f32::from(value)).to_ne_bytes()),
        DataType::Bfloat16 => into.extend(to_bfloat(f32::from(value)).to_ne_bytes()),
        DataType::Uint8 => into.push(value),
        DataType::Int32 => into.extend(i32::from(value).to_ne_bytes()),
    }
}

/// `into[i] = own[i] op with[i]`; `own` absent: `into[i] = into[i] op with[i]`. What of the longer ones has no partner stays.
pub fn combine(dtype: DataType, op: Reduction, into: &mut [u8], own: Option<&[u8]>, with: &[u8]) {
    match dtype {
        DataType::Float32 => {
            let whole = match op {
                Reduction::Sum => add_vectors::<true>(into, own, with),
                _ => 0,
            };
            let of = |a: [u8; 4], b: [u8; 4]| {
                real(op, f32::from_ne_bytes(a), f32::from_ne_bytes(b)).to_ne_bytes()
            };
            let own = own.map(|own| &own[whole..]);
            each(&mut into[whole..], own, &with[whole..], of);
        }
        DataType::Int32 => {
            let whole = match op {
                Reduction::Sum => add_vectors::<false>(into, own, with),
                _ => 0,
            };
            let of = |a: [u8; 4], b: [u8; 4]| {
                let (a, b) = (i32::from_ne_bytes(a), i32::from_ne_bytes(b));
                let value = match op {
                    Reduction::Sum => a.wrapping_add(b),
                    Reduction::Min => a.min(b),
                    Reduction::Max => a.max(b),
                };
                value.to_ne_bytes()
            };
            let own = own.map(|own| &own[whole..]);
            each(&mut into[whole..], own, &with[whole..], of);
        }
        DataType::Float16 => {
            let of = |a: [u8; 2], b: [u8; 2]| {
                let (a, b) = (u16::from_ne_bytes(a), u16::from_ne_bytes(b));
                to_half(real(op, from_half(a), from_half(b))).to_ne_bytes()
            };
            each(into, own, with, of);
        }
        DataType::Bfloat16 => {
            let of = |a: [u8; 2], b: [u8; 2]| {
                let (a, b) = (u16::from_ne_bytes(a), u16::from_ne_bytes(b));
                to_bfloat(real(op, from_bfloat(a), from_bfloat(b))).to_ne_bytes()
            };
            each(into, own, with, of);
        }
        DataType::Uint8 => {
            let of = |[a]: [u8; 1], [b]: [u8; 1]| {
                [match op {
                    Reduction::Sum => a.wrapping_add(b),
                    Reduction::Min => a.min(b),
                    Reduction::Max => a.max(b),
                }]
            };
            each(into, own, with, of);
        }
    }
}

#[inline(always)]
fn real(op: Reduction, a: f32, b: f32) -> f32 {
    match op {
        Reduction::Sum => a + b,
        Reduction::Min => a.min(b),
        Reduction::Max => a.max(b),
    }
}

#[inline(always)]
fn each<const N: usize>(
    into: &mut [u8],
    own: Option<&[u8]>,
    with: &[u8],
    of: impl Fn([u8; N], [u8; N]) -> [u8; N],
) {
    let (into, _) = into.as_chunks_mut::<N>();
    let (with, _) = with.as_chunks::<N>();
    match own {
        Some(own) => {
            let (own, _) = own.as_chunks::<N>();
            for ((into, own), with) in into.iter_mut().zip(own).zip(with) {
                *into = of(*own, *with);
            }
        }
        None => {
            for (into, with) in into.iter_mut().zip(with) {
                *into = of(*into, *with);
            }
        }
    }
}

/// Adds numbers of 32 bits, single-precision ones or whole ones, as [`combine`] does, as far as whole vectors reach; gives how many bytes that was: none
/// if the processor has no such vectors. The program is built for size, and so its loops have none of their own: without these a ring would wait for its
/// additions.
fn add_vectors<const REAL: bool>(into: &mut [u8], own: Option<&[u8]>, with: &[u8]) -> usize {
    if !vector::is_there() {
        return 0;
    }
    let least = into.len().min(with.len());
    let count = own.map_or(least, |own| least.min(own.len())) / vector::BYTES;
    let into = into.as_mut_ptr();
    let own = own.map_or(into.cast_const(), <[u8]>::as_ptr);
    // SAFETY: the processor has these vectors, each slice as many bytes, and `into` is borrowed for writing.
    unsafe { vector::add::<REAL>(count, into, own, with.as_ptr()) };
    count * vector::BYTES
}

#[cfg(target_arch = "x86_64")]
mod vector {
    use std::arch::x86_64::{
        _mm256_add_epi32, _mm256_add_ps, _mm256_castps_si256, _mm256_castsi256_ps,
        _mm256_loadu_si256, _mm256_storeu_si256,
    };

    pub(crate) const BYTES: usize = 32;

    pub(crate) fn is_there() -> bool {
        std::arch::is_x86_feature_detected!("avx2")
    }

    /// Adds this many vectors that begin at these addresses.
    ///
    /// # Safety
    ///
    /// The processor has AVX2. Each address has as many bytes; those of `into` are written by nobody else meanwhile, and may be those of `own`.
    #[target_feature(enable = "avx2")]
    pub(crate) unsafe fn add<const REAL: bool>(
        count: usize,
        into: *mut u8,
        own: *const u8,
        with: *const u8,
    ) {
        for at in (0..count * BYTES).step_by(BYTES) {
            // SAFETY: the caller's; these loads and stores take any address.
            unsafe {
                let a = _mm256_loadu_si256(own.add(at).cast());
                let b = _mm256_loadu_si256(with.add(at).cast());
                let sum = match REAL {
                    true => {
                        let sum = _mm256_add_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
                        _mm256_castps_si256(sum)
                    }
                    false => _mm256_add_epi32(a, b),
                };
                _mm256_storeu_si256(into.add(at).cast(), sum);
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod vector {
    use std::arch::aarch64::{
        vaddq_f32, vaddq_u32, vld1q_u8, vreinterpretq_f32_u8, vreinterpretq_u8_f32,
        vreinterpretq_u8_u32, vreinterpretq_u32_u8, vst1q_u8,
    };

    pub(crate) const BYTES: usize = 16;

    /// All processors of this architecture have NEON.
    pub(crate) fn is_there() -> bool {
        true
    }

    /// Adds this many vectors that begin at these addresses.
    ///
    /// # Safety
    ///
    /// Each address has as many bytes; those of `into` are written by nobody else meanwhile, and may be those of `own`.
    pub(crate) unsafe fn add<const REAL: bool>(
        count: usize,
        into: *mut u8,
        own: *const u8,
        with: *const u8,
    ) {
        for at in (0..count * BYTES).step_by(BYTES) {
            // SAFETY: the caller's; these loads and stores take any address.
            unsafe {
                let (a, b) = (vld1q_u8(own.add(at)), vld1q_u8(with.add(at)));
                let sum = match REAL {
                    true => {
                        let sum = vaddq_f32(vreinterpretq_f32_u8(a), vreinterpretq_f32_u8(b));
                        vreinterpretq_u8_f32(sum)
                    }
                    false => {
                        let sum = vaddq_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b));
                        vreinterpretq_u8_u32(sum)
                    }
                };
                vst1q_u8(into.add(at), sum);
            }
        }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod vector {
    pub(crate) const BYTES: usize = 4;

    pub(crate) fn is_there() -> bool {
        false
    }

    /// Nothing: there are no vectors.
    ///
    /// # Safety
    ///
    /// None is needed.
    pub(crate) unsafe fn add<const REAL: bool>(_: usize, _: *mut u8, _: *const u8, _: *const u8) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_is_ieee() {
        for (bits, value) in [
            (0x0000, 0.0),
            (0x3c00, 1.0),
            (0x4000, 2.0),
            (0xc500, -5.0),
            (0x7bff, 65504.0),
            (0x0400, 6.103_515_6e-5),
            (0x0001, 5.960_464_5e-8),
            (0x03ff, 6.097_555e-5),
            (0x7c00, f32::INFINITY),
        ] {
            assert_eq!(from_half(bits), value, "{bits:#x}");
            assert_eq!(to_half(value), bits, "{value}");
        }
        for bits in 0..=u16::MAX {
            let value = from_half(bits);
            if !value.is_nan() {
                assert_eq!(to_half(value), bits, "{bits:#x}");
            }
        }
        // Ties to even: 2049 lies between 2048 and 2050, 2051 between 2050 and 2052.
        assert_eq!(from_half(to_half(2049.0)), 2048.0);
        assert_eq!(from_half(to_half(2051.0)), 2052.0);
        assert_eq!(to_half(65520.0), 0x7c00);
        assert!(from_half(to_half(f32::NAN)).is_nan());
    }

    #[test]
    fn bfloat_is_the_upper_half() {
        for value in [0.0f32, 1.0, -3.0, 256.0, 1e30] {
            let back = from_bfloat(to_bfloat(value));
            assert!((back - value).abs() <= value.abs() / 256.0, "{value}");
        }
        for whole in 0..=256u16 {
            assert_eq!(from_bfloat(to_bfloat(f32::from(whole))), f32::from(whole));
        }
        assert!(from_bfloat(to_bfloat(f32::NAN)).is_nan());
    }

    #[test]
    fn elements_are_combined_in_place_and_out_of_place() {
        for dtype in DataType::ALL.iter().copied() {
            let list = |values: &[u8]| {
                let mut bytes = Vec::new();
                for value in values {
                    write(dtype, *value, &mut bytes);
                }
                bytes
            };
            for (op, expected) in [
                (Reduction::Sum, [11, 5]),
                (Reduction::Min, [4, 2]),
                (Reduction::Max, [7, 3]),
            ] {
                let (own, with) = (list(&[7, 2]), list(&[4, 3]));
                let mut into = list(&[0, 0]);
                combine(dtype, op, &mut into, Some(&own), &with);
                assert_eq!(into, list(&expected), "{dtype:?} {op:?}");
                let mut into = own.clone();
                combine(dtype, op, &mut into, None, &with);
                assert_eq!(into, list(&expected), "{dtype:?} {op:?}");
            }
        }
    }

    #[test]
    fn sums_of_many_are_those_of_each_at_any_address() {
        for dtype in [DataType::Float32, DataType::Int32] {
            sums_of_many(dtype);
        }
    }

    fn sums_of_many(dtype: DataType) {
        let list = |from: u8, count: usize| {
            let mut bytes = vec![0];
            for value in 0..count {
                write(dtype, from + value as u8, &mut bytes);
            }
            bytes
        };
        for count in [0, 1, 3, 4, 5, 19, 64] {
            let (own, with) = (list(100, count), list(7, count));
            let mut expected = Vec::new();
            for at in 0..count {
                write(dtype, 107 + 2 * at as u8, &mut expected);
            }
            let mut into = vec![0xa5; 1 + 4 * count];
            let sum = (dtype, Reduction::Sum);
            combine(sum.0, sum.1, &mut into[1..], Some(&own[1..]), &with[1..]);
            assert_eq!(into[1..], expected, "{count}");
            let mut into = own.clone();
            combine(sum.0, sum.1, &mut into[1..], None, &with[1..]);
            assert_eq!(into[1..], expected, "{count}");
            // Elements without a partner stay.
            let mut into = vec![0xa5; 4 * count + 9];
            combine(sum.0, sum.1, &mut into, Some(&own[1..]), &with[1..]);
            assert_eq!(
                (&into[..4 * count], &into[4 * count..]),
                (&expected[..], &[0xa5; 9][..])
            );
        }
    }
}
