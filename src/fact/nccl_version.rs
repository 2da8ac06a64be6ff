//! NCCL's versions, and what changed with them.

use std::fmt;

/// A version of NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// Reads `2.27.5`.
    ///
    /// # Errors
    ///
    /// The text is no version.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split('.').map(|part| part.parse::<u32>().ok());
        let mut next = || parts.next().flatten();
        match (next(), next(), next()) {
            (Some(major), Some(minor), Some(patch)) => Ok(Version(major, minor, patch)),
            _ => Err(format!("{text:?} is not an NCCL version")),
        }
    }

    /// Whether `NCCL_CONF_FILE` is read (`src/misc/param.cc`).
    pub fn reads_conf_file(self) -> bool {
        self >= Version(2, 23, 4)
    }

    /// Whether the home directory is `$HOME`, not that of getpwuid(3).
    pub fn takes_home_variable(self) -> bool {
        self >= Version(2, 30, 3)
    }

    /// Whether the carriage return at the end of a file's line is taken away.
    pub fn strips_carriage_return(self) -> bool {
        self >= Version(2, 30, 3)
    }

    /// Whether only interfaces that are running are candidates, and `virbr` comes last (`src/misc/socket.cc`).
    pub fn wants_running(self) -> bool {
        self >= Version(2, 28, 3)
    }

    /// How many adapters' ports, and how many entries of `NCCL_IB_HCA` there can be.
    pub fn most_hcas(self) -> usize {
        if self >= Version(2, 18, 5) { 32 } else { 16 }
    }

    /// Whether ports are sorted by their adapter's place on the PCI bus.
    pub fn sorts_by_pci(self) -> bool {
        self >= Version(2, 29, 7)
    }

    /// Whether the GID index is searched for, where `NCCL_IB_GID_INDEX` does not say it.
    pub fn searches_gid(self) -> bool {
        self >= Version(2, 21, 5)
    }

    /// Whether a GID whose type cannot be read (`EINVAL`) is passed over, not fatal.
    pub fn skips_unreadable_gid(self) -> bool {
        self >= Version(2, 26, 2)
    }
}

/// One version of each kind, if the rules differ: what holds for all of them holds for whichever it is.
pub const KINDS: [Version; 8] = [
    Version(2, 18, 3),
    Version(2, 20, 5),
    Version(2, 22, 3),
    Version(2, 24, 3),
    Version(2, 27, 7),
    Version(2, 28, 9),
    Version(2, 29, 7),
    Version(2, 32, 3),
];

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        let v = |text| Version::parse(text).unwrap();
        assert!(v("2.9.6") < v("2.27.5") && v("2.30.3").strips_carriage_return());
        assert_eq!(v("2.26.2").to_string(), "2.26.2");
        for bad in ["", "2", "2.x.1", "two"] {
            assert!(Version::parse(bad).is_err(), "{bad}");
        }
    }
}
