//! Which facts are read, so that a test can tell the ones that nobody needs.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::Subject;

/// Facts by their subject and their place in its schema.
pub(crate) type Read = BTreeSet<(Subject, usize)>;

thread_local! {
    static READ: RefCell<Option<Read>> = const { RefCell::new(None) };
}

/// Notes that a fact is read, where anybody asked for that.
pub(super) fn note(subject: Subject, index: usize) {
    READ.with_borrow_mut(|read| {
        if let Some(read) = read {
            read.insert((subject, index));
        }
    });
}

/// The facts that this thread reads meanwhile.
pub(crate) fn during(work: impl FnOnce()) -> Read {
    READ.set(Some(Read::new()));
    work();
    READ.take().unwrap_or_default()
}
