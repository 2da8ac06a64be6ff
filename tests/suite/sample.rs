//! How much a test with many cases tries: `RDMA_DOCTOR_CASES` is `quick`, `all`, or not set.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

/// How many times more cases an exhaustive run tries than an ordinary one, and that than a quick one.
const STEP: u8 = 16;

enum Cases {
    Quick,
    Some,
    All,
}

fn cases() -> Cases {
    match std::env::var("RDMA_DOCTOR_CASES").as_deref() {
        Ok("quick") => Cases::Quick,
        Ok("all") => Cases::All,
        Ok("") | Err(_) => Cases::Some,
        Ok(other) => panic!("RDMA_DOCTOR_CASES={other}: quick, all, or nothing"),
    }
}

/// Of how many cases a test tries one, where an ordinary run tries one in `some`; an exhaustive run tries all.
pub(crate) fn one_in(some: usize) -> usize {
    match cases() {
        Cases::Quick => some * usize::from(STEP),
        Cases::Some => some,
        Cases::All => 1,
    }
}

/// How many cases a test makes, where an ordinary run makes `some`; at least one.
pub(crate) fn times(some: u64) -> u64 {
    match cases() {
        Cases::Quick => some.div_ceil(u64::from(STEP)),
        Cases::Some => some,
        Cases::All => some * u64::from(STEP),
    }
}

/// Whether a file is of the part that this run tries: `RDMA_DOCTOR_PART=3/8` is the third of eight;
/// without it all are. What takes hours as a whole has a result of each part.
pub(crate) fn is_of_part(path: &Path) -> bool {
    let Ok(part) = std::env::var("RDMA_DOCTOR_PART") else {
        return true;
    };
    let (number, all) = part.split_once('/').expect("RDMA_DOCTOR_PART=NUMBER/ALL");
    let [number, all]: [u64; 2] = [number, all].map(|digits| digits.parse().unwrap());
    let mut hash = DefaultHasher::new();
    path.file_name().hash(&mut hash);
    hash.finish() % all + 1 == number
}
