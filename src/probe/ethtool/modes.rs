//! Link modes: which speed each bit of `enum ethtool_link_mode_bit_indices` stands for.

/// Mb/s of a link mode, by bit; 0 for bits that are no speed (ports, pause, FEC).
///
/// From include/uapi/linux/ethtool.h: bits 0 to 92 are those of Linux 6.1, the others came later. The numbers are ABI.
const MBPS: &[(std::ops::RangeInclusive<usize>, u64)] = &[
    (0..=1, 10),
    (2..=3, 100),
    (4..=5, 1_000),
    (6..=11, 0),
    (12..=12, 10_000),
    (13..=14, 0),
    (15..=15, 2_500),
    (16..=16, 0),
    (17..=17, 1_000),
    // 20 is 10000baseR_FEC.
    (18..=20, 10_000),
    (21..=22, 20_000),
    (23..=26, 40_000),
    (27..=30, 56_000),
    (31..=33, 25_000),
    (34..=35, 50_000),
    (36..=39, 100_000),
    (40..=40, 50_000),
    (41..=41, 1_000),
    (42..=46, 10_000),
    (47..=47, 2_500),
    (48..=48, 5_000),
    (49..=51, 0),
    (52..=56, 50_000),
    (57..=61, 100_000),
    (62..=66, 200_000),
    (67..=67, 100),
    (68..=68, 1_000),
    (69..=73, 400_000),
    (74..=74, 0),
    (75..=79, 100_000),
    (80..=84, 200_000),
    (85..=89, 400_000),
    (90..=91, 100),
    (92..=92, 10),
    (93..=98, 800_000),
    (99..=102, 10),
    (103..=108, 200_000),
    (109..=114, 400_000),
    (115..=120, 800_000),
    (121..=124, 1_600_000),
];

/// The highest speed of a bitmap of link modes, in Mb/s. A bit that the table does not have could be a higher one.
pub(super) fn highest(bitmap: &[u8]) -> Result<u64, String> {
    let bits = (0..bitmap.len() * 8).filter(|bit| bitmap[bit / 8] >> (bit % 8) & 1 == 1);
    let mut highest = 0;
    for bit in bits {
        match MBPS.iter().find(|(bits, _)| bits.contains(&bit)) {
            Some((_, mbps)) => highest = highest.max(*mbps),
            None => return Err(format!("link mode {bit} is not known")),
        }
    }
    match highest {
        0 => Err("no speed among the supported link modes".to_owned()),
        mbps => Ok(mbps),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bitmap(bits: &[usize]) -> Vec<u8> {
        let mut bitmap = vec![0; 16];
        for bit in bits {
            bitmap[bit / 8] |= 1 << (bit % 8);
        }
        bitmap
    }

    #[test]
    fn every_bit_has_one_speed() {
        for bit in 0..=124 {
            let found = MBPS.iter().filter(|(bits, _)| bits.contains(&bit)).count();
            assert_eq!(found, 1, "bit {bit}");
        }
    }

    #[test]
    fn bits_of_the_kernels_header() {
        // A bit and what its name says.
        for (bit, mbps) in [
            (5, 1_000),     // 1000baseT_Full
            (12, 10_000),   // 10000baseT_Full
            (31, 25_000),   // 25000baseCR_Full
            (39, 100_000),  // 100000baseLR4_ER4_Full
            (41, 1_000),    // 1000baseX_Full
            (48, 5_000),    // 5000baseT_Full
            (66, 200_000),  // 200000baseCR4_Full
            (73, 400_000),  // 400000baseCR8_Full
            (79, 100_000),  // 100000baseDR_Full
            (89, 400_000),  // 400000baseCR4_Full
            (93, 800_000),  // 800000baseCR8_Full
            (103, 200_000), // 200000baseCR_Full
            (109, 400_000), // 400000baseCR2_Full
            (115, 800_000), // 800000baseCR4_Full
            (121, 1_600_000),
        ] {
            assert_eq!(highest(&bitmap(&[6, 13, bit])), Ok(mbps), "bit {bit}");
        }
    }

    #[test]
    fn an_igb_in_qemu() {
        // ethtool(8) of the same device: 10baseT to 1000baseT/Full, autonegotiation, pause.
        let mut bitmap = vec![0xef, 0x20];
        bitmap.resize(16, 0);
        assert_eq!(highest(&bitmap), Ok(1_000));
    }

    #[test]
    fn nothing_is_made_of_no_speed_or_of_an_unknown_bit() {
        assert!(highest(&[]).is_err());
        assert!(highest(&bitmap(&[6, 7, 13, 50])).is_err());
        assert!(highest(&bitmap(&[39, 125])).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_bitmap_makes_it_panic(bytes: Vec<u8>) {
            let _ = highest(&bytes);
        }
    }
}
