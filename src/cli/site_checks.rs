//! A site's own checks, every TOML file below a directory, what its file sets, and its waivers.

use std::path::Path;

use super::input::BadInput;
use super::site_config;
use crate::check::{Catalogue, SiteFile, Waivers};
use crate::live::files;
use crate::terminal;

/// Where a site keeps its checks.
const DIRECTORY: &str = "/etc/rdma-doctor/checks.d";
/// Where it keeps its waivers.
pub(super) const WAIVERS: &str = "/etc/rdma-doctor/waivers.toml";

/// Adds the site's checks, those of further directories, and the waivers of the file that is named or of the site to a catalogue.
///
/// # Errors
///
/// [`BadInput`] where a directory or a file cannot be read, or a check is invalid.
pub(super) fn add(
    catalogue: &mut Catalogue,
    further: &[impl AsRef<Path>],
    waivers: Option<&Path>,
) -> anyhow::Result<()> {
    let site = Path::new(DIRECTORY);
    if files::list_input(site, "toml").is_ok() {
        add_directory(catalogue, site, site_config::is_ignored)?;
    }
    for directory in further {
        add_directory(catalogue, directory.as_ref(), |_| false)?;
    }
    let config = site_config::get()?;
    config
        .apply(catalogue)
        .map_err(|error| BadInput(error.to_string()))?;
    add_waivers(catalogue, waivers)
}

fn add_directory(
    catalogue: &mut Catalogue,
    directory: &Path,
    is_ignored: fn(&Path) -> bool,
) -> anyhow::Result<()> {
    let mut paths = files::list_input(directory, "toml").map_err(|e| BadInput::of(directory, e))?;
    paths.retain(|path| !is_ignored(path));
    let mut found = Vec::with_capacity(paths.len());
    for path in paths {
        let text = files::read_beside(&path).map_err(|e| BadInput::of(&path, e))?;
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

/// Sets the waivers of a catalogue that has all its checks: those of the file that is named, else the site's.
///
/// # Errors
///
/// [`BadInput`] where the named file cannot be read. What is malformed in it is a finding, so that a verdict still comes.
fn add_waivers(catalogue: &mut Catalogue, named: Option<&Path>) -> anyhow::Result<()> {
    let path = named.unwrap_or(Path::new(WAIVERS));
    if named.is_none() && files::mode(path).is_ok() && site_config::is_ignored(path) {
        return Ok(());
    }
    let name = terminal::path(path);
    let text = match files::read_input(path) {
        Err(error) if named.is_some() => return Err(BadInput(format!("{name}: {error}")).into()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        read => read.map_err(|error| error.to_string()),
    };
    let text = text.as_ref().map(String::as_str).map_err(Clone::clone);
    catalogue.waivers = Waivers::read(name, text, catalogue);
    Ok(())
}
