//! The rate of a cable or transceiver, from what its memory reports about itself.
//!
//! Identifiers and codes are those of SFF-8024; if they stand is said by SFF-8472 (SFP), SFF-8636 (QSFP) and CMIS (QSFP-DD, OSFP,
//! QSFP112). A code that `speeds.toml` does not have makes the rate unknown, since it could be a higher one.

/// The highest rate, in Mb/s.
pub(super) fn highest(memory: &[u8]) -> Result<u64, String> {
    let byte = |at: usize| {
        let byte = memory.get(at).copied();
        byte.ok_or_else(|| format!("byte {at} was not read"))
    };
    // SFF-8024, table 4-1.
    match byte(0)? {
        0x03 => sfp(byte(36)?),
        0x0c | 0x0d | 0x11 => qsfp(byte(131)?, byte(192)?, byte(113)?),
        0x18 | 0x19 | 0x1e => {
            let applications = memory.get(86..118).ok_or("bytes 86 to 117 were not read")?;
            cmis(applications)
        }
        other => Err(format!("identifier {other:#04x} is not known")),
    }
}

/// Codes with the Gb/s of a module of one lane (SFP) and of one of four (QSFP); 0 if the code does not say it for such a module.
const EXTENDED: &[(u8, u64, u64)] = include!(concat!(env!("OUT_DIR"), "/speeds.extended.rs"));

fn extended(code: u8) -> Result<(u64, u64), String> {
    let found = EXTENDED.iter().find(|(known, ..)| *known == code);
    match found {
        Some((_, one, four)) => Ok((one * 1000, four * 1000)),
        None => Err(unknown_code(code)),
    }
}

fn unknown_code(code: u8) -> String {
    format!("the module's compliance code {code:#04x} is not known")
}

/// SFF-8472 keeps the code in byte 36 of A0h.
fn sfp(code: u8) -> Result<u64, String> {
    match extended(code)? {
        (0, _) => Err(unknown_code(code)),
        (mbps, _) => Ok(mbps),
    }
}

/// SFF-8636: byte 131 has a bit for each of the older specifications, and bit 7 where byte 192 has a code. Byte 113 has a bit for each
/// lane that the near end of the cable does not have.
fn qsfp(specifications: u8, code: u8, lanes: u8) -> Result<u64, String> {
    if lanes & 0x0f != 0 {
        return Err("the module does not have all four lanes".to_owned());
    }
    match specifications {
        // 40G active cable, 40GBASE-LR4, 40GBASE-SR4, 40GBASE-CR4.
        bits if bits & 0x80 == 0 && bits & 0x0f != 0 => Ok(40_000),
        bits if bits & 0x80 == 0 => Err(format!(
            "the module's specifications {bits:#04x} tell no rate"
        )),
        _ => match extended(code)? {
            (_, 0) => Err(unknown_code(code)),
            (_, mbps) => Ok(mbps),
        },
    }
}

/// Host electrical interfaces of Ethernet, with their Gb/s.
const HOST: &[(u8, u64)] = include!(concat!(env!("OUT_DIR"), "/speeds.host.rs"));

/// The same table's interfaces of Fibre Channel, InfiniBand, CPRI and OTN: no Ethernet port runs them.
fn is_not_ethernet(code: u8) -> bool {
    matches!(code, 0x25..=0x40 | 0x4a | 0x53 | 0xa0)
}

/// CMIS: bytes 86 to 117 have up to eight applications of four bytes, the host's interface first; 0xff ends them. More than eight go on
/// on a page that is not read.
fn cmis(applications: &[u8]) -> Result<u64, String> {
    if applications.chunks_exact(4).all(|a| a[0] != 0xff) {
        return Err("the module has more applications than were read".to_owned());
    }
    let mut highest = 0;
    for application in applications.chunks_exact(4) {
        let host = application[0];
        if host == 0xff {
            break;
        }
        // 0 is an application that is not defined.
        if host == 0 || is_not_ethernet(host) {
            continue;
        }
        match HOST.iter().find(|(known, _)| *known == host) {
            Some((_, gbps)) => highest = highest.max(gbps * 1000),
            None => {
                return Err(format!(
                    "the module's host interface {host:#04x} is not known"
                ));
            }
        }
    }
    match highest {
        0 => Err("the module has no Ethernet application".to_owned()),
        mbps => Ok(mbps),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(bytes: &[(usize, u8)]) -> Vec<u8> {
        let mut memory = vec![0; 256];
        for (at, byte) in bytes {
            memory[*at] = *byte;
        }
        memory
    }

    #[test]
    fn rates_by_kind_of_module() {
        for (about, bytes, mbps) in [
            ("SFP28 DAC", &[(0, 0x03), (36, 0x0b)][..], 25_000),
            (
                "QSFP28 DAC",
                &[(0, 0x11), (131, 0x80), (192, 0x0b)],
                100_000,
            ),
            (
                "QSFP56 DAC",
                &[(0, 0x11), (131, 0x80), (192, 0x40)],
                200_000,
            ),
            ("QSFP+ SR4", &[(0, 0x0d), (131, 0x04)], 40_000),
            (
                "OSFP, 800GAUI-8 and 400GAUI-4",
                &[(0, 0x19), (86, 0x4f), (90, 0x51), (94, 0xff), (98, 0x83)],
                800_000,
            ),
            (
                "QSFP112, IB NDR and 400GAUI-4",
                &[(0, 0x1e), (86, 0x32), (90, 0x4f), (94, 0xff)],
                400_000,
            ),
        ] {
            assert_eq!(highest(&memory(bytes)), Ok(mbps), "{about}");
        }
    }

    #[test]
    fn what_is_not_known_stays_unknown_and_names_the_code() {
        for (bytes, says) in [
            (&[(0, 0x7f)][..], "0x7f"),
            (&[(0, 0x11), (131, 0x80), (192, 0xee)], "0xee"),
            (&[(0, 0x11), (131, 0x80), (192, 0x45)], "0x45"),
            (&[(0, 0x11), (131, 0x00), (192, 0x0b)], "tell no rate"),
            (&[(0, 0x11), (131, 0x80), (192, 0x0b), (113, 0x0c)], "lanes"),
            (&[(0, 0x03)], "0x00"),
            (&[(0, 0x18), (86, 0x4f), (90, 0xc0), (94, 0xff)], "0xc0"),
            (&[(0, 0x18), (86, 0x4f)], "more applications"),
            (&[(0, 0x18), (86, 0x32), (90, 0xff)], "no Ethernet"),
        ] {
            let said = highest(&memory(bytes)).unwrap_err();
            assert!(said.contains(says), "{said}");
        }
        assert!(highest(&[]).is_err());
        assert!(highest(&[0x19; 100]).is_err());
    }

    #[test]
    fn codes_stand_once_and_no_host_code_is_of_two_kinds() {
        assert!(EXTENDED.is_sorted_by(|a, b| a.0 < b.0));
        assert!(HOST.is_sorted_by(|a, b| a.0 < b.0));
        assert!(HOST.iter().all(|(code, _)| !is_not_ethernet(*code)));
    }

    proptest::proptest! {
        #[test]
        fn no_memory_makes_it_panic(bytes: Vec<u8>) {
            let _ = highest(&bytes);
        }
    }
}
