//! The site's file: `/etc/rdma-doctor/config.toml`, or the one that `--config` names. It is read once.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::input::BadInput;
use super::output;
use crate::check::SiteConfig;
use crate::live::{files, trusted};
use crate::terminal;

/// Where a site keeps it.
pub(super) const PATH: &str = "/etc/rdma-doctor/config.toml";

/// The file that the command line names.
static NAMED: OnceLock<PathBuf> = OnceLock::new();
/// What was read, or why it is none.
static READ: OnceLock<Result<SiteConfig, String>> = OnceLock::new();

/// Takes another file than the site's.
pub(super) fn set_path(path: PathBuf) {
    // The command line is read once.
    let _ = NAMED.set(path);
}

/// The site's settings; none if there is no such file.
///
/// # Errors
///
/// [`BadInput`] where it cannot be read, or something in it does not fit.
pub(super) fn get() -> anyhow::Result<&'static SiteConfig> {
    let read = READ.get_or_init(|| read(NAMED.get().map(PathBuf::as_path)));
    read.as_ref().map_err(|why| BadInput(why.clone()).into())
}

/// Whether a file of the site's is left out because others than root can write it, which is said. The command line's are the user's own choice.
pub(super) fn is_ignored(path: &Path) -> bool {
    let why = trusted::distrust(path);
    if let Some(why) = &why {
        let path = terminal::path(path);
        output::say(&format!("{path} is ignored: {why}"));
    }
    why.is_some()
}

fn read(named: Option<&Path>) -> Result<SiteConfig, String> {
    let path = named.unwrap_or(Path::new(PATH));
    if named.is_none() && files::mode(path).is_ok() && is_ignored(path) {
        return Ok(SiteConfig::default());
    }
    let name = terminal::path(path);
    match files::read_input(path) {
        Ok(text) => SiteConfig::read(name, text).map_err(|error| error.to_string()),
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
            Ok(SiteConfig::default())
        }
        Err(error) => Err(format!("{name}: {error}")),
    }
}
