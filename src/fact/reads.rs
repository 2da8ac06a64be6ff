//! Which facts are read and set, so that tests can tell the ones that nobody needs, and what a derivation builds on.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::Subject;

/// Facts by their subject and their place in its schema.
pub(crate) type Read = BTreeSet<(Subject, usize)>;

/// What was used meanwhile.
#[derive(Default)]
pub(crate) struct Used {
    /// Facts that were read.
    pub(crate) read: Read,
    /// Facts that were set.
    pub(crate) set: Read,
    /// Subjects whose instances were looked for.
    pub(crate) looked_for: BTreeSet<Subject>,
    /// Subjects of which instances were made.
    pub(crate) made: BTreeSet<Subject>,
}

thread_local! {
    static USED: RefCell<Option<Used>> = const { RefCell::new(None) };
}

/// Notes a use, if anybody asked for that.
pub(super) fn note(what: impl FnOnce(&mut Used)) {
    USED.with_borrow_mut(|used| {
        if let Some(used) = used {
            what(used);
        }
    });
}

/// The facts that this thread uses meanwhile.
pub(crate) fn during(work: impl FnOnce()) -> Used {
    USED.set(Some(Used::default()));
    work();
    USED.take().unwrap_or_default()
}
