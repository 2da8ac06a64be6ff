//! What the registers that Xid 74 prints say of the link.
//!
//! `NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)`: seven registers, of which NVIDIA's catalogue explains the bits of
//! the first, third, fourth and fifth (workflow NVLINK_ERR, Ampere and newer).

use crate::fact::kernel_event::LinkError;

/// The bits of one register that mean the same.
struct Bits {
    register: usize,
    bits: &'static [u32],
    meaning: LinkError,
}

const fn bits(register: usize, bits: &'static [u32], meaning: LinkError) -> Bits {
    Bits {
        register,
        bits,
        meaning,
    }
}

/// The catalogue's table, the gravest first.
const MEANINGS: &[Bits] = &[
    bits(0, &[4, 5], LinkError::Parity),
    bits(2, &[0, 1, 2, 6], LinkError::Parity),
    bits(4, &[18, 19, 21, 22, 24, 25, 27, 28], LinkError::Parity),
    bits(0, &[8, 9, 12, 16, 17, 24, 28], LinkError::Connection),
    bits(0, &[21, 22], LinkError::Signal),
    bits(0, &[27, 29], LinkError::Unexpected),
    bits(2, &[13, 16, 17, 18, 19], LinkError::Unexpected),
    bits(0, &[1, 20], LinkError::Secondary),
    bits(3, &[16, 17, 18], LinkError::Secondary),
    bits(4, &[20, 23, 26, 29], LinkError::Corrected),
    bits(0, &[0, 23, 30], LinkError::Ignorable),
];

/// The gravest meaning of the registers that a line of Xid 74 has; none if it prints none.
pub(super) fn meaning(line: &str) -> Option<LinkError> {
    let (_, rest) = line.split_once("detected on link ")?;
    let (_, rest) = rest.split_once('(')?;
    let (list, _) = rest.split_once(')')?;
    let registers: Option<Vec<u32>> = list
        .split(',')
        .map(|register| u32::from_str_radix(register.trim().strip_prefix("0x")?, 16).ok())
        .collect();
    let mut left = registers.filter(|registers| registers.len() == 7)?;
    // The catalogue does not explain these.
    for index in [1, 5, 6] {
        left[index] = 0;
    }
    let mut gravest = None;
    for row in MEANINGS {
        let mask: u32 = row.bits.iter().map(|bit| 1 << bit).sum();
        if left[row.register] & mask != 0 {
            gravest = gravest.or(Some(row.meaning));
        }
        left[row.register] &= !mask;
    }
    let unlisted = left.iter().any(|register| *register != 0);
    let harmless = matches!(
        gravest,
        None | Some(LinkError::Secondary | LinkError::Corrected | LinkError::Ignorable)
    );
    match unlisted && harmless {
        true => Some(LinkError::Unexpected),
        false => gravest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(registers: &str) -> Option<LinkError> {
        let line = format!(
            "NVRM: Xid (PCI:0003:00:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 14({registers})"
        );
        meaning(&line)
    }

    #[test]
    fn each_bit_of_the_catalogue() {
        assert_eq!(
            of("0x10, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0"),
            Some(LinkError::Parity)
        );
        assert_eq!(
            of("0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0"),
            Some(LinkError::Connection)
        );
        assert_eq!(
            of("0x200000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0"),
            Some(LinkError::Signal)
        );
        assert_eq!(
            of("0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0"),
            Some(LinkError::Unexpected)
        );
        assert_eq!(
            of("0x0, 0x0, 0x0, 0x10000, 0x0, 0x0, 0x0"),
            Some(LinkError::Secondary)
        );
        assert_eq!(
            of("0x0, 0x0, 0x0, 0x0, 0x100000, 0x0, 0x0"),
            Some(LinkError::Corrected)
        );
        assert_eq!(
            of("0x40000000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0"),
            Some(LinkError::Ignorable)
        );
    }

    #[test]
    fn the_gravest_leads_and_a_bit_without_a_row_is_unexpected() {
        assert_eq!(
            of("0x100002, 0x0, 0x0, 0x0, 0x40000, 0x0, 0x0"),
            Some(LinkError::Parity)
        );
        assert_eq!(
            of("0x2, 0x0, 0x80000000, 0x0, 0x0, 0x0, 0x0"),
            Some(LinkError::Unexpected)
        );
        // The second, sixth and seventh are not explained.
        assert_eq!(
            of("0x1, 0xff, 0x0, 0x0, 0x0, 0xffffffff, 0x10000"),
            Some(LinkError::Ignorable)
        );
    }

    #[test]
    fn a_line_without_registers_says_nothing() {
        assert_eq!(
            meaning("NVRM: Xid (PCI:0000:2b:00): 74, NVLink: fatal error detected on link 3"),
            None
        );
        for registers in [
            "",
            "0x1",
            "0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0",
            "0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x1ffffffff",
        ] {
            assert_eq!(of(registers), None, "{registers}");
        }
    }
}
