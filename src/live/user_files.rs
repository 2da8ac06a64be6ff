//! Files of the user's that launchers read, found as the launchers find them, so that no question has to name the user's home.

use std::net::IpAddr;
use std::path::PathBuf;

use serde_json::json;

use super::clock;
use super::environment::path_variable;
use super::files;
use crate::source::named_format::NamedFormat;
use crate::source::question::Call;
use crate::source::{Answer, Errno, Refusal};

/// What its readers take of a file that is found like this, or that there is none: `{"text":…}`, `{"absent":true}`. `job` is a process of the job's.
pub fn file(call: &Call, job: Option<u32>) -> Result<Answer, Refusal> {
    let name = call.text("name").unwrap_or("");
    let path = path(name)?;
    let format = NamedFormat::of_home(name).ok_or_else(|| unknown(name))?;
    match files::read_named(None, &path.to_string_lossy(), job) {
        Ok(text) => Ok(Answer::from(json!({ "text": format.kept(&text) }))),
        Err(Refusal::Errno(Errno::ENOENT | Errno::ENOTDIR)) => {
            Ok(Answer::from(json!({ "absent": true })))
        }
        Err(refusal) => Err(refusal),
    }
}

/// What its readers take of a file that the environment, or another file, names by its path.
pub(super) fn named(
    call: &Call,
    root: Option<&files::Root>,
    job: Option<u32>,
) -> Result<Answer, Refusal> {
    let (path, format) = (call.text("path"), call.text("format"));
    let path = path.ok_or_else(|| Refusal::not_asked("no path"))?;
    let format = format.and_then(NamedFormat::from_name);
    let format = format.ok_or_else(|| Refusal::not_asked("no such format"))?;
    match files::read_named(root, path, job) {
        Ok(text) => Ok(Answer::Text(format.kept(&text).into())),
        // A copied tree need not hold everything.
        Err(Refusal::Errno(Errno::ENOENT | Errno::ENOTDIR)) if root.is_some() => {
            Err(Refusal::NotRecorded)
        }
        Err(refusal) => Err(refusal),
    }
}

fn unknown(name: &str) -> Refusal {
    Refusal::not_asked(format!("unknown file {name}"))
}

/// Where the file's readers look for it.
fn path(name: &str) -> Result<PathBuf, Refusal> {
    let home = || {
        path_variable("HOME")
            .map(PathBuf::from)
            .ok_or_else(|| Refusal::not_asked("HOME is not set"))
    };
    Ok(match name {
        // deepspeed/launcher/runner.py: DS_ENV_FILE replaces the name, and an absolute one the place.
        ".deepspeed_env" => {
            let named = path_variable("DS_ENV_FILE").unwrap_or_else(|| name.to_owned());
            match named.starts_with('/') {
                true => named.into(),
                false => home()?.join(named),
            }
        }
        // accelerate/commands/config/config_args.py, which follows huggingface_hub.
        "accelerate/default_config.yaml" => match path_variable("HF_HOME") {
            Some(hub) => PathBuf::from(hub).join(name),
            None => match path_variable("XDG_CACHE_HOME") {
                Some(cache) => PathBuf::from(cache).join("huggingface").join(name),
                None => home()?.join(".cache/huggingface").join(name),
            },
        },
        ".openmpi/mca-params.conf" => home()?.join(name),
        _ => return Err(unknown(name)),
    })
}

/// The addresses that /etc/hosts gives to a name, `{"addresses":[…]}`: to the value of a variable, or to this host's own name.
/// No name server is asked, and the answer names no host.
pub fn hosts(call: &Call) -> Result<Answer, Refusal> {
    let name = name_of(call)?;
    let text = match files::ask(None, &super::Question::read("/etc/hosts")) {
        Some(Ok(Answer::Text(text))) => text,
        // No file gives no name an address.
        Some(Err(Refusal::Errno(Errno::ENOENT))) => "".into(),
        Some(Err(refusal)) => return Err(refusal),
        _ => return Err(Refusal::not_asked("/etc/hosts is not text")),
    };
    Ok(Answer::from(
        json!({ "addresses": addresses(&text, &name) }),
    ))
}

/// The addresses of such a name as the C library resolves it, or how that failed:
/// `{"addresses":[…],"took_ms":3}`, `{"failed":…}`. The answer names no host.
pub fn lookup(call: &Call) -> Result<Answer, Refusal> {
    let began_ns = clock::boottime_ns();
    let found = resolved(call)?;
    let took_ms = (clock::boottime_ns() - began_ns) / 1_000_000;
    Ok(Answer::from(match found {
        Ok(addresses) => {
            let all: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            json!({ "addresses": all, "took_ms": took_ms })
        }
        Err(failed) => json!({ "failed": failed }),
    }))
}

/// The addresses of the name that a call is about, or how the name server failed.
pub(super) fn resolved(call: &Call) -> Result<Result<Vec<IpAddr>, String>, Refusal> {
    use std::net::ToSocketAddrs as _;
    // What getaddrinfo(3) says of a name that does not exist: glibc's two errors, and musl's.
    let none = [
        "service not known",
        "No address associated",
        "does not resolve",
    ];
    Ok(match (name_of(call)?.as_str(), 0).to_socket_addrs() {
        Ok(found) => {
            let mut all: Vec<IpAddr> = found.map(|one| one.ip()).collect();
            all.dedup();
            Ok(all)
        }
        Err(error) => {
            let said = error.to_string();
            match none.iter().any(|words| said.contains(words)) {
                true => Ok(Vec::new()),
                false => Err(said.rsplit(": ").next().unwrap_or_default().to_owned()),
            }
        }
    })
}

/// The addresses of the host that a variable names, which no name server has to be asked for.
pub(super) fn noted(variable: &str) -> Vec<IpAddr> {
    let Some(name) = path_variable(variable) else {
        return Vec::new();
    };
    if let Ok(address) = name.parse() {
        return vec![address];
    }
    match files::ask(None, &super::Question::read("/etc/hosts")) {
        Some(Ok(Answer::Text(text))) => {
            let all = addresses(&text, &name);
            all.iter().filter_map(|one| one.parse().ok()).collect()
        }
        _ => Vec::new(),
    }
}

/// The variables that name the host at which the processes of a job meet.
pub(super) const MASTERS: [&str; 2] = ["MASTER_ADDR", "PET_MASTER_ADDR"];

/// The name that a call is about: this host's own, or a variable's value.
fn name_of(call: &Call) -> Result<String, Refusal> {
    match call.text("of") {
        Some("hostname") => Ok(super::environment::node_name()),
        Some(name) if MASTERS.contains(&name) => {
            path_variable(name).ok_or_else(|| Refusal::not_asked(format!("{name} is not set")))
        }
        _ => Err(Refusal::not_asked("no such name to look up")),
    }
}

/// The addresses that a hosts(5) file gives to a name.
fn addresses<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or("");
        let mut words = line.split_whitespace();
        if let Some(address) = words.next()
            && words.any(|word| word.eq_ignore_ascii_case(name))
        {
            found.push(address);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Question;

    #[test]
    fn a_name_has_the_addresses_of_its_lines() {
        let text = "127.0.0.1\tlocalhost\n127.0.1.1\tnode1.example node1\n# 10.0.0.1 node1\n\n::1 ip6-localhost # node1\n10.0.0.1 NODE1 x";
        assert_eq!(addresses(text, "node1"), ["127.0.1.1", "10.0.0.1"]);
        assert_eq!(addresses(text, "node1.example"), ["127.0.1.1"]);
        assert!(addresses(text, "node").is_empty());
    }

    #[test]
    fn files_that_nobody_knows_are_not_looked_for() {
        let ask = |name: &str| match Question::call("home_file", [("name", name.into())]) {
            Question::Call(call) => file(&call, None),
            _ => panic!(),
        };
        assert!(matches!(ask("../../etc/shadow"), Err(Refusal::NotAsked(_))));
        assert!(matches!(ask(".ssh/id_ed25519"), Err(Refusal::NotAsked(_))));
    }
}
