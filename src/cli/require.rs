//! `--require`: the areas that must have been examined, by the command line or by the site's file.

use std::path::Path;

use super::input::{BadInput, BadUsage};
use super::site_config;
use crate::check::{Catalogue, nearest_name};
use crate::diagnosis::areas::RequiredAreas;
use crate::live::files;

/// Where a site says which areas its nodes need: `require = ["devices", "ports"]`, `"all"` or `"none"`.
const SITE: &str = "/etc/rdma-doctor/areas.toml";

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Site {
    require: Words,
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Words {
    One(String),
    Several(Vec<String>),
}

/// What is required: by the argument, else by the site's file, else by its `areas.toml`, else by the areas themselves.
///
/// # Errors
///
/// [`BadUsage`] and [`BadInput`] where a name is none of an area, or the site's file cannot be read as one.
pub(super) fn require(argument: &[String]) -> anyhow::Result<RequiredAreas> {
    if !argument.is_empty() {
        return named(argument).map_err(|why| BadUsage(format!("--require: {why}")).into());
    }
    let config = site_config::get()?;
    if !config.require.is_empty() {
        let bad = |why| BadInput(format!("{}: require: {why}", config.path())).into();
        return named(&config.require).map_err(bad);
    }
    site(Path::new(SITE))
}

fn site(path: &Path) -> anyhow::Result<RequiredAreas> {
    match files::read_input(path) {
        Ok(text) => Ok(of_site(&text).map_err(|why| BadInput::of(path, why))?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(RequiredAreas::Own),
        Err(error) => Err(BadInput::of(path, error).into()),
    }
}

/// What the text of a site's `areas.toml` requires.
///
/// # Errors
///
/// Why it is none, or which name is none of an area.
pub fn of_site(text: &str) -> Result<RequiredAreas, String> {
    let site: Site = toml::from_str(text).map_err(|error| error.to_string())?;
    match site.require {
        Words::One(word) => named(&[word]),
        Words::Several(words) => named(&words),
    }
}

/// The areas of these names.
fn named(words: &[String]) -> Result<RequiredAreas, String> {
    match words {
        [one] if one == "all" => return Ok(RequiredAreas::All),
        [one] if one == "none" => return Ok(RequiredAreas::These(Vec::new())),
        _ => {}
    }
    let areas = Catalogue::area_names().map_err(|error| error.to_string())?;
    for word in words {
        if !areas.contains(word) {
            let near = nearest_name(word, areas.iter().map(String::as_str));
            let help = match near {
                Some(near) => format!("; the nearest is `{near}`"),
                None => format!("; the areas are {}", areas.join(", ")),
            };
            return Err(format!("no area is named `{word}`{help}"));
        }
    }
    Ok(RequiredAreas::These(words.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_named_or_refused() {
        let of = |words: &[&str]| named(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["all"]), Ok(RequiredAreas::All));
        assert_eq!(of(&["none"]), Ok(RequiredAreas::These(Vec::new())));
        let two = of(&["ports", "gpus"]).unwrap();
        assert_eq!(
            two,
            RequiredAreas::These(vec!["ports".into(), "gpus".into()])
        );
        assert!(of(&["port"]).unwrap_err().contains("`ports`"));
        assert!(of(&["ports", "none"]).is_err());
    }

    #[test]
    fn a_sites_file_is_read_or_refused() {
        let dir = std::env::temp_dir().join(format!("require-{}", std::process::id()));
        crate::live::files::replace_output(&dir, b"require = [\"ports\"]\n", false).unwrap();
        assert_eq!(
            site(&dir).unwrap(),
            RequiredAreas::These(vec!["ports".into()])
        );
        crate::live::files::replace_output(&dir, b"requires = [\"ports\"]\n", false).unwrap();
        assert!(site(&dir).is_err());
        assert_eq!(
            site(Path::new("/nonexistent/areas.toml")).unwrap(),
            RequiredAreas::Own
        );
    }
}
