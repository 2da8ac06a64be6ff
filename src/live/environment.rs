//! The environment of this process, and the names by which it runs.

#![expect(
    clippy::disallowed_methods,
    reason = "the environment is part of the machine"
)]

use std::sync::Arc;

use crate::source::Answer;

fn variables(is_wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| {
            Some((
                name.into_string().ok()?,
                value.to_string_lossy().into_owned(),
            ))
        })
        .filter(move |(name, _)| is_wanted(name))
}

/// The variables whose names begin so, as a reply.
pub(super) fn with_prefixes(prefixes: &[Arc<str>]) -> Answer {
    let vars: serde_json::Map<String, serde_json::Value> =
        variables(|name| prefixes.iter().any(|p| name.starts_with(&**p)))
            .map(|(name, value)| (name, value.into()))
            .collect();
    Answer::from(serde_json::Value::from(vars))
}

/// The variables of NCCL's in this process's environment, by their names.
pub fn variables_of_nccl() -> Vec<(String, String)> {
    let mut found: Vec<_> = variables(|name| name.starts_with("NCCL_")).collect();
    found.sort_unstable();
    found
}

/// A variable of this process's own environment that configures the doctor: its launcher, its key. The environment of jobs on a machine is
/// asked by a question instead.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A variable that names files or directories, unless it is empty.
pub(super) fn path_variable(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?;
    Some(value.to_string_lossy().into_owned()).filter(|value| !value.is_empty())
}

/// The name of this node, for a recording's header.
pub fn node_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// The names of the user that runs the doctor, which a recording must not contain.
pub fn user_names() -> Vec<String> {
    let names = ["USER", "LOGNAME", "SUDO_USER"]
        .into_iter()
        .filter_map(|v| std::env::var(v).ok());
    let mut names: Vec<String> = names.filter(|n| n.len() > 1 && n != "root").collect();
    names.dedup();
    names
}
