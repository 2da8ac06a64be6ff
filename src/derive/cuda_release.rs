//! Whether NCCL was built for a newer major release of CUDA than the driver has. Within one major
//! release a newer library works with an older driver (minor version compatibility, since CUDA 11);
//! a driver whose user space a container has replaced (cuda-compat) says so itself.

use super::Derivation;
use crate::fact::run::{self, Library};
use crate::fact::{Fact, Facts, Gap, Id, host, node};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("cuda_release", &[], derive);

/// States it of a node.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let driver = facts.get(node, node::CUDA_DRIVER);
    let driver = driver.and_then(|text| major(&text));
    let wanted = facts.get(node, node::NCCL_CUDA);
    if wanted.known() == Some(&0) {
        let gap = Gap::missing("the release of CUDA for which NCCL was built");
        facts.set(node, node::CUDA_TOO_OLD, Fact::Unknown(gap));
        return;
    }
    facts.set(node, node::CUDA_TOO_OLD, is_older(driver, wanted));
}

/// States it of a host of a run of NCCL.
pub fn of_host(facts: &mut Facts, run: Id, host: Id) {
    // 12040 is 12.4.
    let driver = facts.get(host, host::DRIVER).map(|number| number / 1000);
    let built = facts.get(run, run::CUDA);
    let other = "the release of CUDA of a library that is not NVIDIA's";
    let built = facts
        .get(run, run::LIBRARY)
        .flat_map(|library| match library {
            Library::Nccl => built.and_then(|text| major(&text)),
            _ => Fact::Unknown(Gap::missing(other)),
        });
    facts.set(host, host::CUDA_TOO_OLD, is_older(driver, built));
}

fn is_older(driver: Fact<u64>, wanted: Fact<u64>) -> Fact<bool> {
    driver.zip(wanted).map(|(driver, wanted)| driver < wanted)
}

/// `12.4`
fn major(text: &str) -> Result<u64, String> {
    let number = text.split('.').next().unwrap_or(text);
    number
        .parse()
        .map_err(|_| format!("{text:?} is not a CUDA release"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::derive::testing::stated;

    #[test]
    fn only_a_newer_major_release_is_too_new() {
        for (driver, wanted, old) in [
            ("12.8", 13, true),
            ("12.2", 12, false),
            ("13.0", 12, false),
            ("11.4", 12, true),
        ] {
            let mut facts = Facts::new();
            let id = facts.new_node("n");
            facts.set(id, node::CUDA_DRIVER, stated(driver.into()));
            facts.set(id, node::NCCL_CUDA, stated(wanted));
            derive(&mut facts, id);
            assert_eq!(facts.known(id, node::CUDA_TOO_OLD), Some(old), "{driver}");
        }
        assert!(major("r12").is_err());
    }
}
