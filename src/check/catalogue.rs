//! All checks: the built-in ones, and a site's own.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::diagnostic::{CheckError, nearest};
use super::{Area, Check, Inventory, Waivers, areas, built, file, glob, limits, typing};
use crate::fact::{Limits, Type, Value};
use crate::small_sort;

/// The built-in files as they are, each with its path. The program does not name it, so it is not in there.
const WITH_EXAMPLES: &[(&str, &str)] =
    include!(concat!(env!("OUT_DIR"), "/checks_with_examples.rs"));

/// Ids that once were checks: `checks/RETIRED`, an id and the reason a line.
const RETIRED: &str = include_str!(concat!(env!("OUT_DIR"), "/RETIRED"));

/// A file of a site's checks.
#[derive(Clone, Debug)]
pub struct SiteFile {
    /// Its path below the site's directory.
    pub inside: String,
    /// Its name in messages.
    pub name: String,
    /// Its content.
    pub text: String,
}

/// Checks, sorted by id.
#[derive(Debug, Default)]
pub struct Catalogue {
    /// The checks.
    pub checks: Vec<Check>,
    /// The areas to which they belong; none if a choice of checks is judged for itself.
    pub areas: Vec<Area>,
    /// Whether a person chose checks: then each of them must be decided.
    pub is_chosen: bool,
    /// The limits that the site sets, also of checks that were not chosen.
    pub limits: Limits,
    /// The findings that the site accepts.
    pub waivers: Waivers,
    /// What the site expects of its nodes.
    pub inventory: Inventory,
}

/// A choice of checks, or of a limit, that names nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SelectionError {
    /// No check fits.
    #[error("no check is named `{pattern}`{}", suggestion(nearest))]
    NoCheck {
        /// The requested name.
        pattern: String,
        /// The id that is most like it.
        nearest: Option<String>,
    },
    /// The check has no such limit.
    #[error("check `{id}` has no limit `{name}`{}", suggestion(nearest))]
    NoLimit {
        /// The check.
        id: String,
        /// The requested name.
        name: String,
        /// The limit that is most like it.
        nearest: Option<String>,
    },
    /// The limit cannot have this value.
    #[error("limit `{name}` of check `{id}`: {problem}")]
    WrongLimit {
        /// The check.
        id: String,
        /// The limit.
        name: String,
        /// Why the value is invalid.
        problem: String,
    },
}

fn suggestion(nearest: &Option<String>) -> String {
    match nearest {
        Some(near) => format!("; the nearest is `{near}`"),
        None => String::new(),
    }
}

impl Catalogue {
    /// The built-in checks, without their examples.
    pub fn embedded() -> Result<Self, CheckError> {
        Catalogue::of(built::all())
    }

    /// The names of the areas, in their order.
    ///
    /// # Errors
    ///
    /// The built-in file is invalid.
    pub fn area_names() -> Result<Vec<String>, CheckError> {
        let names = areas::embedded()?.into_iter();
        Ok(names.map(|area| area.name.to_string()).collect())
    }

    /// The built-in checks, with their examples.
    pub fn embedded_with_examples() -> Result<Self, CheckError> {
        Catalogue::of(WITH_EXAMPLES.iter().map(|(path, text)| {
            let id = id_of(path.strip_prefix("checks/").unwrap_or(path));
            read(id, Cow::Borrowed(path), Cow::Borrowed(text))
        }))
    }

    fn of(checks: impl Iterator<Item = Result<Check, CheckError>>) -> Result<Self, CheckError> {
        let mut catalogue = Catalogue {
            checks: Vec::with_capacity(WITH_EXAMPLES.len()),
            areas: areas::embedded()?,
            is_chosen: false,
            limits: Limits::default(),
            waivers: Waivers::default(),
            inventory: Inventory::default(),
        };
        for check in checks {
            catalogue.checks.push(check?);
        }
        catalogue.sort()?;
        Ok(catalogue)
    }

    /// Adds a site's checks: files with their paths inside of the site's directory. The file `limits.toml` is none: it sets limits of the checks that
    /// there are.
    ///
    /// # Errors
    ///
    /// A file is invalid, or defines a check that there is already.
    pub fn add_site(
        &mut self,
        files: impl IntoIterator<Item = SiteFile>,
    ) -> Result<(), CheckError> {
        let mut set = None;
        for SiteFile { inside, name, text } in files {
            // Kubernetes keeps a ConfigMap's files twice, once below a name that begins so.
            if inside.split('/').any(|part| part.starts_with('.')) {
                continue;
            }
            match &*inside {
                limits::FILE => set = Some((name, text)),
                _ => self.add(id_of(&inside), name, text)?,
            }
        }
        self.sort()?;
        match set {
            Some((name, text)) => limits::apply(self, &name, &text),
            None => Ok(()),
        }
    }

    /// Adds one check of a site from its text.
    fn add(&mut self, id: &str, path: String, text: String) -> Result<(), CheckError> {
        // Examples are read only by `explain` and the tests, never when a node is examined.
        self.checks.push(read(id, path.into(), text.into())?);
        Ok(())
    }

    /// Puts the checks in order, each in its area; two of one id, and an area that there is not, are an error.
    fn sort(&mut self) -> Result<(), CheckError> {
        for check in &mut self.checks {
            let area = match &*check.area {
                "" => {
                    let folder = check.id.split('/').next().unwrap_or_default();
                    let has = |area: &&Area| area.folders.iter().any(|f| **f == *folder);
                    self.areas.iter().find(has)
                }
                name => {
                    let area = self.areas.iter().find(|area| &*area.name == name);
                    let unknown = || {
                        let names = self.areas.iter().map(|area| &*area.name);
                        let help = nearest(name, names).map(|n| format!("; write `{n}`"));
                        let help = help.unwrap_or_default();
                        CheckError::whole(&check.path, format!("there is no area `{name}`{help}"))
                    };
                    Some(area.ok_or_else(unknown)?)
                }
            };
            if let Some(area) = area {
                check.area = Arc::clone(&area.name);
            }
        }
        small_sort::by(&mut self.checks, |a, b| a.id.cmp(&b.id));
        for pair in self.checks.windows(2) {
            if let [first, second] = pair
                && first.id == second.id
            {
                let message = format!("check `{}` is already defined in {}", second.id, first.path);
                return Err(CheckError::whole(&second.path, message));
            }
        }
        Ok(())
    }

    /// Keeps the checks that fit one of `only` (all, if it is empty) and none of `skip`: ids, or patterns with `*`
    /// and `?`. A pattern that fits nothing is an error. A choice by `only` has no areas.
    pub fn select(&mut self, only: &[String], skip: &[String]) -> Result<(), SelectionError> {
        for pattern in only.iter().chain(skip) {
            if !self.checks.iter().any(|c| glob::fits(pattern, &c.id)) {
                return Err(self.no_check(pattern));
            }
        }
        if !only.is_empty() {
            self.areas.clear();
        }
        let fits = |patterns: &[String], id: &str| patterns.iter().any(|p| glob::fits(p, id));
        self.checks
            .retain(|c| (only.is_empty() || fits(only, &c.id)) && !fits(skip, &c.id));
        Ok(())
    }

    /// That no check fits, and what was meant: the id that is most like it, or all checks of a
    /// folder.
    pub(super) fn no_check(&self, pattern: &str) -> SelectionError {
        let ids = self.checks.iter().map(|check| &*check.id);
        let folders: BTreeSet<&str> = (ids.clone())
            .filter_map(|id| Some(id.rsplit_once('/')?.0))
            .collect();
        let written = pattern.trim_end_matches(['/', '*']);
        let nearest = if folders.contains(written) {
            Some(written)
        } else {
            nearest(pattern, folders.iter().copied().chain(ids))
        };
        SelectionError::NoCheck {
            pattern: pattern.to_owned(),
            nearest: nearest.map(|near| {
                if folders.contains(near) {
                    format!("{near}/*")
                } else {
                    near.to_owned()
                }
            }),
        }
    }

    /// The check of this id.
    pub fn get(&self, id: &str) -> Option<&Check> {
        let at = self.checks.binary_search_by(|c| (*c.id).cmp(id)).ok()?;
        self.checks.get(at)
    }

    /// Sets a limit of a check to another value of the same type; an empty list is of either type.
    pub fn override_limit(
        &mut self,
        id: &str,
        name: &str,
        value: Value,
    ) -> Result<(), SelectionError> {
        let Ok(at) = self.checks.binary_search_by(|c| (*c.id).cmp(id)) else {
            return Err(self.no_check(id));
        };
        let limits = &mut self.checks[at].limits;
        let Some(limit) = limits.iter().position(|(n, _)| **n == *name) else {
            return Err(SelectionError::NoLimit {
                id: id.to_owned(),
                name: name.to_owned(),
                nearest: nearest(name, limits.iter().map(|(n, _)| &**n)).map(str::to_owned),
            });
        };
        let wrong = |problem: String| SelectionError::WrongLimit {
            id: id.to_owned(),
            name: name.to_owned(),
            problem,
        };
        let current = &mut limits[limit].1;
        let ty = typing::type_of(current);
        *current = match (ty, value) {
            (Type::Counts, Value::Texts(list)) if list.is_empty() => Value::Counts([].into()),
            (_, value) if typing::type_of(&value) == ty => value,
            (_, value) => return Err(wrong(format!("`{value}` is not {ty}"))),
        };
        self.limits.set(id, name, current.clone());
        Ok(())
    }
}

/// The id of a file, from its path below the directory of checks.
pub(super) fn id_of(path: &str) -> &str {
    path.strip_suffix(".toml").unwrap_or(path)
}

/// Reads a check after a look at its id.
pub(super) fn read(
    id: &str,
    path: Cow<'static, str>,
    text: Cow<'static, str>,
) -> Result<Check, CheckError> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let part = |part: &str| !part.is_empty() && part.chars().all(plain);
    if !id.split('/').all(part) || id.split('/').count() > 2 {
        let message = format!(
            "`{id}` is not an id: write `directory/name`, lower-case letters, digits and dashes"
        );
        return Err(CheckError::whole(&path, message));
    }
    if let Some((_, reason)) = retired().find(|(retired, _)| *retired == id) {
        return Err(CheckError::whole(
            &path,
            format!("the id `{id}` is retired: {reason}"),
        ));
    }
    file::parse(id, path, text)
}

/// The retired ids, each with the reason.
fn retired() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = RETIRED.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split_once(char::is_whitespace).unwrap_or((line, "")))
        .map(|(id, reason)| (id, reason.trim()))
}
