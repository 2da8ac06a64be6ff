//! A few words that say how a fact was worked out, or why it is missing.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Words that are in the program, mostly, or that were made of what was found. A machine with many GPUs has thousands of facts that say the
/// same: what is in the program is not copied for each.
#[derive(Clone)]
pub enum Phrase {
    /// Written in the program.
    Fixed(&'static str),
    /// Made of what was found. (Behind a thin pointer: so a phrase takes two words, and every fact has one.)
    Made(Arc<String>),
}

impl Deref for Phrase {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Phrase::Fixed(text) => text,
            Phrase::Made(text) => text,
        }
    }
}

impl PartialEq for Phrase {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Phrase {}

impl fmt::Debug for Phrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Phrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl From<&'static str> for Phrase {
    fn from(text: &'static str) -> Self {
        Phrase::Fixed(text)
    }
}

impl From<String> for Phrase {
    fn from(text: String) -> Self {
        Phrase::Made(text.into())
    }
}

impl From<Arc<str>> for Phrase {
    fn from(text: Arc<str>) -> Self {
        Phrase::from(&text)
    }
}

impl From<&String> for Phrase {
    fn from(text: &String) -> Self {
        Phrase::from(text.clone())
    }
}

impl From<&Arc<str>> for Phrase {
    fn from(text: &Arc<str>) -> Self {
        Phrase::from(text.to_string())
    }
}
