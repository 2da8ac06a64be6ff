//! A site's own checks: every TOML file below a directory.

use std::path::Path;

use super::bad_arguments::BadInput;
use crate::check::{Catalogue, SiteFile};
use crate::live::files;
use crate::terminal;

/// Where a site keeps its checks.
const DIRECTORY: &str = "/etc/rdma-doctor/checks.d";

/// Adds the site's checks and those of further directories to a catalogue.
///
/// # Errors
///
/// [`BadInput`] where a directory or a file cannot be read, or a check is invalid.
pub(super) fn add(catalogue: &mut Catalogue, further: &[impl AsRef<Path>]) -> anyhow::Result<()> {
    let site = Path::new(DIRECTORY);
    if files::list_input(site, "toml").is_ok() {
        add_directory(catalogue, site)?;
    }
    for directory in further {
        add_directory(catalogue, directory.as_ref())?;
    }
    Ok(())
}

fn add_directory(catalogue: &mut Catalogue, directory: &Path) -> anyhow::Result<()> {
    let unreadable =
        |path: &Path, error: std::io::Error| BadInput(format!("{}: {error}", terminal::path(path)));
    let paths = files::list_input(directory, "toml").map_err(|e| unreadable(directory, e))?;
    let mut found = Vec::with_capacity(paths.len());
    for path in paths {
        let text = files::read_beside(&path).map_err(|e| unreadable(&path, e))?;
        let inside = path.strip_prefix(directory).unwrap_or(&path);
        found.push(SiteFile {
            inside: terminal::path(inside),
            name: terminal::path(path),
            text,
        });
    }
    catalogue
        .add_site(found)
        .map_err(|error| BadInput(error.to_string()).into())
}
