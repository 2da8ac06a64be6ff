//! What the loader says of a library that it does not load (dlerror(3)).

use std::error::Error;

/// The loader's own words, if it has any: libloading keeps them as the source of its error.
pub(super) fn loader_words(error: &dyn Error) -> String {
    error.source().unwrap_or(error).to_string()
}
