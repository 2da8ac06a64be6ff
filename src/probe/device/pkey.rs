//! A port's table of P_Keys.

use crate::fact::{Fact, Facts, Gap, Id, Membership, Origin, Presence, port};
use crate::probe::Ask;
use crate::source::Question;

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
    let names = match ask.names_if_any(dir) {
        Presence::Present(names, _) => names,
        Presence::Absent(origin) => {
            facts.know(id, port::PKEYS, 0, &origin);
            facts.know(id, port::PKEYS_IN_FRONT, [].into(), &origin);
            facts.know(id, port::FULL_PKEY, false, &origin);
            facts.know(id, port::DEFAULT_PKEY, false, &origin);
            return;
        }
        Presence::Unknown(gap) => {
            let counts = [port::PKEYS.index, port::PKEYS_IN_FRONT.index];
            let flags = [port::FULL_PKEY.index, port::DEFAULT_PKEY.index];
            facts.leave_open(id, &[counts, flags].concat(), &gap);
            return;
        }
    };
    let list = Question::list(dir);
    let (numbers, mut missing) = match super::numbers(&names) {
        Ok(numbers) => (numbers, None),
        Err((numbers, what)) => (numbers, Some(Gap::not_understood(&list, what))),
    };
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
    let front = match &missing {
        None => Fact::Known(keys.collect(), Origin::Asked(list.clone())),
        Some(gap) => Fact::Unknown(gap.clone()),
    };
    facts.set(id, port::PKEYS_IN_FRONT, front);
    if read < total && missing.is_none() {
        missing = Some(Gap::not_understood(
            &list,
            format!("{used} in the first {read} of {total} entries; the rest was not read"),
        ));
    }
    let whole = Membership::known_unless(missing, Origin::Asked(list));
    let found = |origin: Option<Origin>| match (origin, &whole) {
        (Some(origin), _) => Fact::Known(true, origin),
        (None, Membership::Known(origin)) => Fact::Known(false, origin.clone()),
        (None, Membership::Unknown(gap)) => Fact::Unknown(gap.clone()),
    };
    facts.set(id, port::FULL_PKEY, found(full));
    facts.set(id, port::DEFAULT_PKEY, found(default));
    let count = match whole {
        Membership::Known(origin) => Fact::Known(used, origin),
        Membership::Unknown(gap) => Fact::Unknown(gap),
    };
    facts.set(id, port::PKEYS, count);
}
