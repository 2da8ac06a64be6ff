//! The sysfs files of a PCIe link, and of its errors.
//!
//! Source: <https://www.kernel.org/doc/Documentation/ABI/testing/sysfs-bus-pci>, drivers/pci/pci-sysfs.c and drivers/pci/pcie/aer.c.

use crate::probe::is_not;

/// The generation of a speed: `16.0 GT/s PCIe` (kernels from 5.7) or `16 GT/s`. `Unknown` and `Unknown speed` are none.
pub(super) fn generation(text: &str) -> Result<u64, String> {
    let number = text
        .trim()
        .strip_suffix(" PCIe")
        .unwrap_or(text.trim())
        .strip_suffix("GT/s")
        .map(str::trim_end);
    match number {
        Some("2.5") => Ok(1),
        Some("5.0" | "5") => Ok(2),
        Some("8.0" | "8") => Ok(3),
        Some("16.0" | "16") => Ok(4),
        Some("32.0" | "32") => Ok(5),
        Some("64.0" | "64") => Ok(6),
        _ => Err(is_not(text.trim(), "a speed of a PCIe link")),
    }
}

/// The lanes of a link. 0 and 255 are what the kernel shows for a link that it does not know or that is down.
pub(super) fn width(text: &str) -> Result<u64, String> {
    match crate::probe::whole_number(text)? {
        lanes @ (1 | 2 | 4 | 8 | 12 | 16 | 32) => Ok(lanes),
        _ => Err(is_not(text.trim(), "a number of lanes")),
    }
}

/// The sum of these counters of `aer_dev_correctable` and its kin: a name and a number a line.
fn sum(text: &str, counts: impl Fn(&str) -> bool) -> Result<u64, String> {
    let (mut total, mut seen) = (0u64, false);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let Some((name, number)) = line.rsplit_once(' ') else {
            return Err(is_not(line, "a counter of errors"));
        };
        // Most are zero: twenty counters of every link.
        let number = match number {
            "0" => 0,
            number => crate::probe::whole_number(number)?,
        };
        if counts(name.trim_end()) {
            seen = true;
            total = total.saturating_add(number);
        }
    }
    if seen {
        Ok(total)
    } else {
        Err(is_not(text.trim(), "a list of errors"))
    }
}

/// The errors of the link itself: a signal not understood, a packet damaged or sent again. An advisory non-fatal error
/// (`NonFatalErr`) is correctable too, and says nothing about the link: an unsupported request is one.
pub(super) fn link_errors(text: &str) -> Result<u64, String> {
    sum(text, |name| {
        ["RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout"].contains(&name)
    })
}

/// The non-fatal errors, unsupported requests left out.
pub(super) fn nonfatal_errors(text: &str) -> Result<u64, String> {
    sum(text, |name| {
        !name.starts_with("TOTAL_") && name != "UnsupReq"
    })
}

/// The fatal errors.
pub(super) fn fatal_errors(text: &str) -> Result<u64, String> {
    sum(text, |name| name == "TOTAL_ERR_FATAL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_as_kernels_write_them() {
        for (text, generation_of) in [
            ("2.5 GT/s PCIe\n", Some(1)),
            ("5 GT/s\n", Some(2)),
            ("5.0 GT/s PCIe", Some(2)),
            ("8 GT/s", Some(3)),
            ("16.0 GT/s PCIe\n", Some(4)),
            ("32.0 GT/s PCIe", Some(5)),
            ("64.0 GT/s PCIe", Some(6)),
            ("Unknown\n", None),
            ("Unknown speed\n", None),
            ("133 MHz PCI-X\n", None),
            ("", None),
            ("99 GT/s", None),
        ] {
            assert_eq!(generation(text).ok(), generation_of, "{text:?}");
        }
    }

    #[test]
    fn widths() {
        assert_eq!(width("16\n"), Ok(16));
        for odd in ["0", "255", "", "x16", "-1", "63"] {
            assert!(width(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn counters() {
        let correctable = "RxErr 2\nBadTLP 1\nBadDLLP 0\nRollover 0\nTimeout 4\nNonFatalErr 900\nCorrIntErr 0\nHeaderOF 0\nTOTAL_ERR_COR 907\n";
        assert_eq!(link_errors(correctable), Ok(7));
        let nonfatal = "Undefined 0\nDLP 0\nSDES 0\nTLP 0\nFCP 0\nCmpltTO 3\nCmpltAbrt 0\nUnxCmplt 1\nRxOF 0\nMalfTLP 0\nECRC 0\nUnsupReq 50\nACSViol 0\nUncorrIntErr 0\nBlockedTLP 0\nAtomicOpBlocked 0\nTLPBlockedErr 0\nPoisonTLPBlocked 0\nTOTAL_ERR_NONFATAL 54\n";
        assert_eq!(nonfatal_errors(nonfatal), Ok(4));
        assert_eq!(
            fatal_errors("Undefined 0\nDLP 1\nTOTAL_ERR_FATAL 1\n"),
            Ok(1)
        );
        for odd in ["", "\n", "RxErr\n", "RxErr many\n", "0\n"] {
            assert!(link_errors(odd).is_err(), "{odd:?}");
            assert!(fatal_errors(odd).is_err(), "{odd:?}");
        }
    }
}
