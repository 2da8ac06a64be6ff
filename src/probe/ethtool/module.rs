//! The rate of a cable or transceiver, from what its memory reports about itself.
//!
//! Identifiers and codes are those of SFF-8024; if they stand is said by SFF-8472 (SFP), SFF-8636 (QSFP) and CMIS (QSFP-DD, OSFP,
//! QSFP112). A code that the tables below do not have makes the rate unknown, since it could be a higher one.

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

/// SFF-8024, table 4-4: extended specification compliance, with the Gb/s that the code stands for in a module of one lane (SFP) and in one
/// of four (QSFP); 0 if the code does not say it for such a module. Names as of revision 4.8.
const EXTENDED: &[(u8, u64, u64)] = &[
    (0x01, 25, 100),  // 100G AOC or 25GAUI C2M AOC
    (0x02, 25, 100),  // 100GBASE-SR4 or 25GBASE-SR
    (0x03, 25, 100),  // 100GBASE-LR4 or 25GBASE-LR
    (0x04, 25, 100),  // 100GBASE-ER4 or 25GBASE-ER
    (0x06, 0, 100),   // 100G CWDM4
    (0x07, 0, 100),   // 100G PSM4
    (0x08, 25, 100),  // 100G ACC or 25GAUI C2M ACC
    (0x0b, 25, 100),  // 100GBASE-CR4, 25GBASE-CR CA-25G-L or 50GBASE-CR2 with RS
    (0x0c, 25, 0),    // 25GBASE-CR CA-25G-S or 50GBASE-CR2 with BASE-R
    (0x0d, 25, 0),    // 25GBASE-CR CA-25G-N or 50GBASE-CR2 with no FEC
    (0x10, 0, 40),    // 40GBASE-ER4
    (0x11, 0, 40),    // 4 x 10GBASE-SR
    (0x12, 0, 40),    // 40G PSM4
    (0x16, 10, 0),    // 10GBASE-T with SFI
    (0x17, 0, 100),   // 100G CLR4
    (0x18, 25, 100),  // 100G AOC or 25GAUI C2M AOC
    (0x19, 25, 100),  // 100G ACC or 25GAUI C2M ACC
    (0x1a, 0, 100),   // 100GE-DWDM2
    (0x1b, 0, 100),   // 100G 1550nm WDM
    (0x1c, 10, 0),    // 10GBASE-T Short Reach
    (0x1d, 5, 0),     // 5GBASE-T
    (0x1f, 0, 40),    // 40G SWDM4
    (0x20, 0, 100),   // 100G SWDM4
    (0x21, 0, 100),   // 100G PAM4 BiDi
    (0x22, 0, 100),   // 4WDM-10
    (0x23, 0, 100),   // 4WDM-20
    (0x24, 0, 100),   // 4WDM-40
    (0x25, 0, 100),   // 100GBASE-DR
    (0x26, 0, 100),   // 100G-FR or 100GBASE-FR1
    (0x27, 0, 100),   // 100G-LR or 100GBASE-LR1
    (0x29, 100, 400), // 100GBASE-SR1, 200GBASE-SR2 or 400GBASE-SR4
    (0x30, 50, 200),  // ACC with 50GAUI, 100GAUI-2 or 200GAUI-4 C2M
    (0x31, 50, 200),  // AOC with 50GAUI, 100GAUI-2 or 200GAUI-4 C2M
    (0x32, 50, 200),  // ACC, likewise
    (0x33, 50, 200),  // AOC, likewise
    (0x3f, 100, 400), // 100GBASE-CR1, 200GBASE-CR2 or 400GBASE-CR4
    (0x40, 50, 200),  // 50GBASE-CR, 100GBASE-CR2 or 200GBASE-CR4
    (0x41, 50, 200),  // 50GBASE-SR, 100GBASE-SR2 or 200GBASE-SR4
    (0x42, 50, 200),  // 50GBASE-FR or 200GBASE-DR4
    (0x43, 0, 200),   // 200GBASE-FR4
    (0x44, 0, 200),   // 200G 1550 nm PSM4
    (0x45, 50, 0),    // 50GBASE-LR
    (0x46, 0, 200),   // 200GBASE-LR4
    (0x47, 0, 400),   // 400GBASE-DR4
    (0x48, 0, 400),   // 400GBASE-FR4
    (0x49, 0, 400),   // 400GBASE-LR4-6
];

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

/// SFF-8024, table 4-5: host electrical interfaces of Ethernet, with their Gb/s. Names as of revision 4.8 and, from 0x46 on, 4.12; from
/// 0x57 on as SONiC's port-1.6t-support.md has them of the draft.
const HOST: &[(u8, u64)] = &[
    (0x04, 10),   // SFI
    (0x05, 25),   // 25GAUI C2M
    (0x06, 40),   // XLAUI C2M
    (0x07, 40),   // XLPPI
    (0x08, 50),   // LAUI-2 C2M
    (0x09, 50),   // 50GAUI-2 C2M
    (0x0a, 50),   // 50GAUI-1 C2M
    (0x0b, 100),  // CAUI-4 C2M
    (0x0c, 100),  // 100GAUI-4 C2M
    (0x0d, 100),  // 100GAUI-2 C2M
    (0x0e, 200),  // 200GAUI-8 C2M
    (0x0f, 200),  // 200GAUI-4 C2M
    (0x10, 400),  // 400GAUI-16 C2M
    (0x11, 400),  // 400GAUI-8 C2M
    (0x13, 10),   // 10GBASE-CX4
    (0x14, 25),   // 25GBASE-CR CA-L
    (0x15, 25),   // 25GBASE-CR CA-S
    (0x16, 25),   // 25GBASE-CR CA-N
    (0x17, 40),   // 40GBASE-CR4
    (0x18, 50),   // 50GBASE-CR
    (0x19, 100),  // 100GBASE-CR10
    (0x1a, 100),  // 100GBASE-CR4
    (0x1b, 100),  // 100GBASE-CR2
    (0x1c, 200),  // 200GBASE-CR4
    (0x1d, 400),  // 400G CR8
    (0x41, 100),  // CAUI-4 C2M without FEC
    (0x42, 100),  // CAUI-4 C2M with RS FEC
    (0x43, 50),   // 50GBASE-CR2 with RS FEC
    (0x44, 50),   // 50GBASE-CR2 with BASE-R FEC
    (0x45, 50),   // 50GBASE-CR2 with no FEC
    (0x46, 100),  // 100GBASE-CR1
    (0x47, 200),  // 200GBASE-CR2
    (0x48, 400),  // 400GBASE-CR4
    (0x49, 800),  // 800G-ETC-CR8 or 800GBASE-CR8
    (0x4b, 100),  // 100GAUI-1-S C2M
    (0x4c, 100),  // 100GAUI-1-L C2M
    (0x4d, 200),  // 200GAUI-2-S C2M
    (0x4e, 200),  // 200GAUI-2-L C2M
    (0x4f, 400),  // 400GAUI-4-S C2M
    (0x50, 400),  // 400GAUI-4-L C2M
    (0x51, 800),  // 800GAUI-8 S C2M
    (0x52, 800),  // 800GAUI-8 L C2M
    (0x55, 1600), // 1.6TAUI-16-S C2M
    (0x56, 1600), // 1.6TAUI-16-L C2M
    (0x57, 800),  // 800GBASE-CR4
    (0x58, 1600), // 1.6TBASE-CR8
    (0x80, 200),  // 200GAUI-1
    (0x81, 400),  // 400GAUI-2
    (0x82, 800),  // 800GAUI-4
    (0x83, 1600), // 1.6TAUI-8
];

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
