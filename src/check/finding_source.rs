//! The finding of a check. A built-in one is parsed on first use, because most checks find nothing.

use std::sync::OnceLock;

use super::{Check, Template};

/// Where a check's finding is stored.
#[derive(Debug)]
pub(super) enum FindingSource {
    /// It was read with the rest of the file.
    Read(Template),
    /// It is this text, once it is read.
    Text(&'static str, OnceLock<Template>),
}

impl Check {
    /// The finding in one sentence.
    pub fn finding(&self) -> &Template {
        match &self.finding {
            FindingSource::Read(template) => template,
            FindingSource::Text(text, read) => read.get_or_init(|| {
                // A test reads all of them: what is built in is well-formed.
                Template::parse(text, self.names()).unwrap_or_default()
            }),
        }
    }
}
