//! All checks: the built-in ones, and a site's own.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::diagnostic::{CheckError, nearest};
use super::{Area, Check, Inventory, Waivers, areas, built, file, limits, typing};
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
        let mut checks = Vec::with_capacity(WITH_EXAMPLES.len());
        for (path, text) in WITH_EXAMPLES {
            let id = id_of(path.strip_prefix("checks/").unwrap_or(path));
            checks.extend(read(id, Cow::Borrowed(path), Cow::Borrowed(text))?);
        }
        Catalogue::of(checks.into_iter().map(Ok))
    }

    /// The number of checks, of whatever number of cases.
    pub fn count(&self) -> usize {
        self.checks.chunk_by(|a, b| a.id == b.id).count()
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
        self.checks.extend(read(id, path.into(), text.into())?);
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
        // Those of one check in the order of their file.
        small_sort::by(&mut self.checks, |a, b| a.id.cmp(&b.id));
        let mut named: Vec<&Check> = self.checks.iter().collect();
        small_sort::by(&mut named, |a, b| a.case.cmp(&b.case));
        for pair in named.windows(2) {
            if let [first, second] = pair
                && first.case == second.case
            {
                let (id, path) = (&second.case, &first.path);
                let message = format!("check `{id}` is already defined in {path}");
                return Err(CheckError::whole(&second.path, message));
            }
        }
        Ok(())
    }

    /// Keeps the checks that fit one of `only` (all, if it is empty) and none of `skip`: ids, or patterns with `*`
    /// and `?`. A pattern that fits nothing is an error. A choice by `only` has no areas.
    pub fn select(&mut self, only: &[String], skip: &[String]) -> Result<(), SelectionError> {
        for pattern in only.iter().chain(skip) {
            if !self.checks.iter().any(|check| check.is_named(pattern)) {
                return Err(self.no_check(pattern));
            }
        }
        if !only.is_empty() {
            self.areas.clear();
        }
        self.checks.retain(|check| {
            let is_one_of = |patterns: &[String]| patterns.iter().any(|p| check.is_named(p));
            (only.is_empty() || is_one_of(only)) && !is_one_of(skip)
        });
        Ok(())
    }

    /// That no check fits, and what was meant: the id that is most like it, or all checks of a
    /// folder.
    pub(super) fn no_check(&self, pattern: &str) -> SelectionError {
        let ids = self.checks.iter().map(|check| &*check.case);
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

    /// The check of this id, or the case: of a check with several cases the first.
    pub fn get(&self, id: &str) -> Option<&Check> {
        let first = self.checks.partition_point(|check| &*check.id < id);
        let of_id = self.checks.get(first).filter(|check| *check.id == *id);
        of_id.or_else(|| self.checks.iter().find(|check| *check.case == *id))
    }

    /// Sets a limit of a check to another value of the same type; an empty list is of either type.
    pub fn override_limit(
        &mut self,
        id: &str,
        name: &str,
        value: Value,
    ) -> Result<(), SelectionError> {
        // A case's own id names it alone, if it has the limit.
        let is_case = (self.checks.iter()).any(|check| *check.case == *id && check.has_limit(name));
        let named = |check: &&mut Check| {
            if is_case {
                *check.case == *id
            } else {
                *check.id == *id || *check.case == *id
            }
        };
        let mut cases: Vec<&mut Check> = self.checks.iter_mut().filter(named).collect();
        if cases.is_empty() {
            return Err(self.no_check(id));
        }
        let names: Vec<&str> = (cases.iter().flat_map(|check| &check.limits))
            .map(|(name, _)| &**name)
            .collect();
        if !names.contains(&name) {
            return Err(SelectionError::NoLimit {
                id: id.to_owned(),
                name: name.to_owned(),
                nearest: nearest(name, names).map(str::to_owned),
            });
        }
        for check in &mut cases {
            let set = check.limits.iter_mut().filter(|(n, _)| **n == *name);
            for (_, current) in set {
                let ty = typing::type_of(current);
                *current = match (ty, &value) {
                    (Type::Counts, Value::Texts(list)) if list.is_empty() => {
                        Value::Counts([].into())
                    }
                    (_, value) if typing::type_of(value) == ty => value.clone(),
                    (_, value) => {
                        return Err(SelectionError::WrongLimit {
                            id: id.to_owned(),
                            name: name.to_owned(),
                            problem: format!("`{value}` is not {ty}"),
                        });
                    }
                };
                self.limits.set(&check.case, name, current.clone());
            }
        }
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
) -> Result<Vec<Check>, CheckError> {
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
