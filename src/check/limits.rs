//! The limits that a site sets: `limits.toml` in a directory of checks.
//!
//! ```toml
//! ["kernel/xid-gpu-fault"]
//! codes  = [48, 62, 63, 64, 79, 95, 119, 120, 140, 143]
//! recent = "2 h"
//! ```
//!
//! A table for each check, by its id; in it the limits that differ, as the check's own file writes them.

use toml::de::DeTable;

use super::Catalogue;
use super::catalogue::SelectionError;
use super::diagnostic::{CheckError, Complaint};
use super::file::{Document, as_table, limit};

/// The name of the file, which is no check's.
pub(super) const FILE: &str = "limits.toml";

/// Sets the limits that a file names. Nothing that it says is passed over: a check, a limit or a type that does not fit is an
/// error with its place.
pub(super) fn apply(catalogue: &mut Catalogue, path: &str, text: &str) -> Result<(), CheckError> {
    let document = Document::new(path, text);
    set(catalogue, &document, &document.table()?)
}

/// Sets the limits of a table, which is a document's or in it.
pub(super) fn set(
    catalogue: &mut Catalogue,
    document: &Document<'_>,
    table: &DeTable<'_>,
) -> Result<(), CheckError> {
    for (id, item) in table {
        let limits = as_table(item, "a table, [\"directory/name\"], of a check's limits");
        let limits = limits.map_err(|complaint| document.error(&complaint))?;
        for (name, item) in limits {
            let value = limit(document, item).map_err(|complaint| document.error(&complaint))?;
            catalogue
                .override_limit(id.get_ref(), name.get_ref(), value)
                .map_err(|problem| {
                    let place = match problem {
                        SelectionError::NoCheck { .. } => id.span(),
                        SelectionError::NoLimit { .. } => name.span(),
                        SelectionError::WrongLimit { .. } => item.span(),
                    };
                    document.error(&Complaint::new(place, problem.to_string()))
                })?;
        }
    }
    Ok(())
}
