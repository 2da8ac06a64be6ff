//! Lines of outputs, which facts name as their origin.

use std::sync::Arc;

use crate::fact::{Fact, Gap, LogLine, Origin, Why};

/// A line of an output, with what it proves.
#[derive(Clone, Copy)]
pub(in crate::probe) struct OutputLine<'p> {
    file: &'p Arc<str>,
    pub(in crate::probe) number: u64,
    pub(in crate::probe) text: &'p str,
}

impl OutputLine<'_> {
    /// The line itself.
    pub(in crate::probe) fn origin(&self) -> Origin {
        Origin::Logged(Arc::new(LogLine {
            file: Arc::clone(self.file),
            line: self.number,
            text: self.text.trim().into(),
        }))
    }

    /// A value that the line says.
    pub(in crate::probe) fn known<T>(&self, value: T) -> Fact<T> {
        Fact::Known(value, self.origin())
    }

    /// A value, or that the line is not understood.
    pub(in crate::probe) fn read<T>(&self, value: Option<T>) -> Fact<T> {
        match value {
            Some(value) => self.known(value),
            None => Fact::Unknown(Gap {
                why: Why::NotUnderstood("the line is not understood".into()),
                origin: self.origin(),
            }),
        }
    }
}

/// The lines of an output.
pub(in crate::probe) fn lines<'p>(
    file: &'p Arc<str>,
    numbered: &'p [(u64, String)],
) -> impl Iterator<Item = OutputLine<'p>> + Clone {
    numbered.iter().map(move |(number, text)| OutputLine {
        file,
        number: *number,
        text,
    })
}
