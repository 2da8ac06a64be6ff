//! A port's table of P_Keys.

use std::sync::Arc;

use crate::fact::{Fact, Facts, Gap, Id, port};
use crate::probe::Ask;

/// A table up to this length is read whole.
const SHORT: usize = 16;
/// This many empty entries end the reading of a long one, once it has shown what matters.
const EMPTY_RUN: u32 = 8;
/// Bit 15 says full membership (InfiniBand Architecture Specification, 10.9.1.1).
const FULL: u64 = 0x8000;
/// The default partition.
const DEFAULT: u64 = 0x7fff;

/// States the facts of the table in `dir`.
///
/// A table has 128 entries or more, and subnet managers fill it from the front, so most of it need not be read: a key that
/// was found is a fact after few questions. That a key is *not* there is said only if the whole table answered.
pub(super) fn table(ask: &Ask<'_>, facts: &mut Facts, id: Id, dir: &str) {
    let (names, listed) = match ask.names_if_any(dir).or_absent(Arc::default()) {
        Fact::Known(names, listed) => (names, listed),
        Fact::Unknown(gap) => {
            let counts = [port::PKEYS.index, port::PKEYS_IN_FRONT.index];
            let flags = [port::FULL_PKEY.index, port::DEFAULT_PKEY.index];
            facts.leave_open(id, &[counts, flags].concat(), &gap);
            return;
        }
    };
    let (numbers, odd) = super::numbers(&names);
    let mut missing = odd.map(|what| Gap::misread(what, listed.clone()));
    let total = numbers.len();
    let (mut used, mut empty_run, mut read) = (0u64, 0, 0);
    let (mut full, mut default) = (None, None);
    let mut keys = Vec::new();
    for number in numbers {
        let settled = full.is_some() && default.is_some();
        if total > SHORT && settled && empty_run >= EMPTY_RUN {
            break;
        }
        read += 1;
        match ask.parse(format!("{dir}/{number}"), crate::probe::whole_number) {
            Fact::Known(0, _) => empty_run += 1,
            Fact::Known(key, origin) => {
                empty_run = 0;
                used += 1;
                keys.push(key);
                if key & FULL != 0 {
                    full.get_or_insert_with(|| origin.clone());
                }
                if key & DEFAULT == DEFAULT {
                    default.get_or_insert(origin);
                }
            }
            Fact::Unknown(gap) => {
                missing.get_or_insert(gap);
            }
        }
    }
    keys.sort_unstable();
    keys.dedup();
    let keys = keys.iter().map(|key| format!("0x{key:04x}").into());
    let front = Fact::Known(keys.collect(), listed.clone()).unless(missing.clone());
    facts.set(id, port::PKEYS_IN_FRONT, front);
    if read < total {
        let what = format!("{used} in the first {read} of {total} entries; the rest was not read");
        missing.get_or_insert(Gap::misread(what, listed.clone()));
    }
    let count = Fact::Known(used, listed).unless(missing);
    for (key, found) in [(port::FULL_PKEY, full), (port::DEFAULT_PKEY, default)] {
        let found = found.map(|origin| Fact::Known(true, origin));
        facts.set(
            id,
            key,
            found.unwrap_or_else(|| count.clone().map(|_| false)),
        );
    }
    facts.set(id, port::PKEYS, count);
}
