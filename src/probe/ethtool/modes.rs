//! Link modes: which speed each bit of `enum ethtool_link_mode_bit_indices` stands for.

/// First and last bit of link modes, and their Mb/s; 0 for bits that are no speed. The rows are in `speeds.toml`.
const MBPS: &[(usize, usize, u64)] = include!(concat!(env!("OUT_DIR"), "/speeds.modes.rs"));

/// The highest speed of a bitmap of link modes, in Mb/s. A bit that the table does not have could be a higher one.
pub(super) fn highest(bitmap: &[u8]) -> Result<u64, String> {
    let bits = (0..bitmap.len() * 8).filter(|bit| bitmap[bit / 8] >> (bit % 8) & 1 == 1);
    let mut highest = 0;
    for bit in bits {
        match MBPS
            .iter()
            .find(|(first, last, _)| (*first..=*last).contains(&bit))
        {
            Some((.., mbps)) => highest = highest.max(*mbps),
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
            let found = MBPS
                .iter()
                .filter(|(first, last, _)| (*first..=*last).contains(&bit))
                .count();
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
