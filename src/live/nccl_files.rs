//! Finds NCCL's libraries and configuration files, as the dynamic linker, Python and NCCL do.
//!
//! The library is not loaded: it has hundreds of megabytes, and its directory says its version.

#![expect(
    clippy::disallowed_methods,
    reason = "where NCCL may be is part of the machine"
)]

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::environment::path_variable;
use super::trusted;
use crate::source::question::Call;
use crate::source::{Answer, Refusal};

/// The name by which programs load it.
const LIBRARY: &str = "libnccl.so.2";
/// Where distributions and CUDA's packages put it.
const SYSTEM: [&str; 8] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/local/cuda/lib64",
    "/usr/local/nccl/lib",
    "/opt/nccl/lib",
];
/// Directories below which Python keeps packages, besides those that the environment names.
const PREFIXES: [&str; 4] = ["/usr/local", "/usr", "/opt/conda", "/opt/venv"];
/// Libraries that are reported.
const MOST: usize = 32;

/// Answers `nccl_libraries` and `nccl_files`. `named` is what `--nccl` says: a file or a version.
pub(super) fn ask(call: &Call, named: Option<&str>) -> Result<Answer, Refusal> {
    let value = match &*call.name {
        "nccl_libraries" => libraries(named),
        "nccl_files" => files(),
        name => return Err(Refusal::unknown_call(name)),
    };
    Ok(Answer::from(value))
}

/// The reply for `--nccl` alone, if a copied tree is examined.
pub(super) fn named(named: &str) -> Answer {
    let mut found = FoundLibraries::default();
    found.named(named);
    Answer::from(Value::from(found.list))
}

#[derive(Default)]
struct FoundLibraries {
    list: Vec<Value>,
    seen: HashSet<PathBuf>,
    /// Those for which there was no room.
    left_out: u64,
}

impl FoundLibraries {
    fn named(&mut self, named: &str) {
        if version_of_name(named).is_some_and(|version| version == named) {
            self.list.push(json!({"from": "--nccl", "version": named}));
        } else {
            self.add("--nccl", Path::new(named));
        }
    }

    /// The list, and behind it how many had no room.
    fn into_reply(mut self) -> Value {
        if self.left_out > 0 {
            self.list
                .push(json!({"from": "left out", "left_out": self.left_out}));
        }
        self.list.into()
    }

    /// A file, if it is there and was not yet found by another way.
    fn add(&mut self, from: &str, path: &Path) {
        let Ok(real) = real_path(path) else {
            return;
        };
        if !self.seen.insert(real.clone()) {
            return;
        }
        if self.list.len() >= MOST {
            self.left_out += 1;
            return;
        }
        let (cuda, wheel) = wheel(path).unzip();
        let version = version_of_file(&real).or(wheel);
        let (named, path) = (path, path.to_string_lossy());
        let mut library = json!({"from": from, "path": path, "version": version});
        // A person who names a library vouches for it.
        if let Some(why) = trusted::distrust(named).filter(|_| from != "--nccl") {
            library["refused"] = why.into();
        }
        if let Some(cuda) = cuda {
            library["cuda"] = cuda.into();
        }
        self.list.push(library);
    }

    fn add_below(&mut self, from: &str, dir: &Path) {
        self.add(from, &dir.join(LIBRARY));
    }

    /// The packages of each Python below a prefix.
    fn python(&mut self, from: &str, prefix: &Path) {
        let lib = prefix.join("lib");
        for python in names(&lib).iter().filter(|n| n.starts_with("python3")) {
            for packages in ["site-packages", "dist-packages"] {
                let dir = lib.join(python).join(packages);
                self.add_below(from, &dir.join("nvidia/nccl/lib"));
            }
        }
    }
}

fn libraries(named: Option<&str>) -> Value {
    let mut found = FoundLibraries::default();
    if let Some(named) = named {
        found.named(named);
    }
    let preload = path_variable("LD_PRELOAD").unwrap_or_default();
    for path in preload
        .split([':', ' '])
        .filter(|p| p.contains("libnccl.so"))
    {
        found.add("LD_PRELOAD", Path::new(path));
    }
    let path = path_variable(trusted::LIBRARY_PATH).or_else(|| path_variable("LD_LIBRARY_PATH"));
    let path = path.unwrap_or_default();
    for dir in path.split([':', ';']).filter(|d| d.starts_with('/')) {
        found.add_below("LD_LIBRARY_PATH", Path::new(dir));
    }
    for name in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        if let Some(prefix) = path_variable(name) {
            found.python(name, Path::new(&prefix));
            found.add_below(name, &Path::new(&prefix).join("lib"));
        }
    }
    // The Python that a plain `python3` is: of a module, of a tool that manages versions.
    if let Some(prefix) = python_prefix(&path_variable("PATH").unwrap_or_default()) {
        found.python("PATH", &prefix);
        found.add_below("PATH", &prefix.join("lib"));
    }
    if let Some(home) = path_variable("HOME") {
        found.python("Python", &Path::new(&home).join(".local"));
    }
    for prefix in PREFIXES {
        found.python("Python", Path::new(prefix));
        if prefix == "/opt/conda" {
            found.add_below("Python", Path::new("/opt/conda/lib"));
        }
    }
    for dir in SYSTEM {
        found.add_below("system", Path::new(dir));
    }
    found.into_reply()
}

/// Below which the first `python3` of a search path keeps its packages; `None` if it is the system's, which is looked at anyway.
fn python_prefix(path: &str) -> Option<PathBuf> {
    let bins = path.split(':').filter(|dir| dir.starts_with('/'));
    let bin = bins
        .map(Path::new)
        .find(|dir| real_path(&dir.join("python3")).is_ok())?;
    let prefix = bin.parent()?;
    let system = PREFIXES.iter().any(|one| Path::new(one) == prefix);
    (!system && prefix != Path::new("/")).then(|| prefix.to_owned())
}

/// The two homes in which NCCL looks for its file, by its version, and the file that the environment names.
fn files() -> Value {
    json!({
        "home": path_variable("HOME"),
        "passwd_home": passwd_home(),
        "conf_file": path_variable("NCCL_CONF_FILE"),
    })
}

/// The home directory that getpwuid(3) gives: of /etc/passwd, else of the other services that nsswitch.conf(5) names.
fn passwd_home() -> Option<String> {
    let uid = rustix::process::getuid().as_raw().to_string();
    let of = |text: &str| {
        text.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            match fields[..] {
                [_, _, id, _, _, home, ..] if id == uid => Some(home.to_owned()),
                _ => None,
            }
        })
    };
    if let Some(home) = read("/etc/passwd").and_then(|text| of(&text)) {
        return Some(home);
    }
    let argv = ["getent", "passwd", &uid].map(Arc::from);
    match super::command::run(&argv) {
        Ok(Answer::Text(text)) => of(&text),
        _ => None,
    }
}

/// The version of a library file, by its name or by the wheel that it is of.
pub(super) fn version_of(path: &Path) -> Option<String> {
    version_of_file(path).or_else(|| Some(wheel(path)?.1))
}

/// `libnccl.so.2.27.5`
fn version_of_file(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    version_of_name(name.strip_prefix("libnccl.so.")?)
}

/// `nvidia_nccl_cu12-2.27.5.dist-info` next to `nvidia/nccl/lib`: the major release of CUDA, and NCCL's version.
fn wheel(path: &Path) -> Option<(u64, String)> {
    let packages = path.ancestors().nth(4)?;
    let is_wheel = path.parent()?.ends_with("nvidia/nccl/lib");
    let packages = is_wheel.then(|| names(packages))?;
    packages.iter().find_map(|name| package(name))
}

fn package(name: &str) -> Option<(u64, String)> {
    let name = name
        .strip_prefix("nvidia_nccl_cu")?
        .strip_suffix(".dist-info")?;
    let (cuda, version) = name.split_once('-')?;
    Some((cuda.parse().ok()?, version_of_name(version)?))
}

/// Three numbers, and what a package adds to them left away.
fn version_of_name(text: &str) -> Option<String> {
    let mut parts = text.split('.');
    let mut number = || parts.next()?.parse::<u32>().ok();
    Some(format!("{}.{}.{}", number()?, number()?, number()?))
}

fn real_path(path: &Path) -> std::io::Result<PathBuf> {
    std::fs::canonicalize(path)
}

/// The names in a directory, sorted; none where it cannot be read.
pub(super) fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    names
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let file = |name: &str| version_of_file(Path::new(name));
        assert_eq!(file("/l/libnccl.so.2.27.5").as_deref(), Some("2.27.5"));
        assert_eq!(file("/l/libnccl.so.2"), None);
        assert_eq!(version_of_name("2.26.2.post1").as_deref(), Some("2.26.2"));
        assert_eq!(version_of_name("2.x.1"), None);
        let wheel = package("nvidia_nccl_cu12-2.27.5.dist-info");
        assert_eq!(wheel, Some((12, "2.27.5".into())));
        assert_eq!(package("nvidia_nvtx_cu12-12.4.127.dist-info"), None);
    }

    #[test]
    fn the_python_of_a_search_path() {
        let root = std::env::temp_dir().join(format!("rdma-doctor-python-{}", std::process::id()));
        let bin = root.join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        let path = format!("relative:/no/such:{}", bin.to_string_lossy());
        assert_eq!(python_prefix(&path), None);
        std::os::unix::fs::symlink("/proc/self/exe", bin.join("python3")).unwrap();
        assert_eq!(python_prefix(&path).as_ref(), Some(&root));
        assert_eq!(python_prefix(""), None);
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn libraries_beyond_the_bound_are_counted() {
        let root = std::env::temp_dir().join(format!("rdma-doctor-nccl-{}", std::process::id()));
        let mut found = FoundLibraries::default();
        for number in 0..MOST + 2 {
            let dir = root.join(number.to_string());
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::File::create(dir.join(LIBRARY)).unwrap();
            found.add_below("LD_LIBRARY_PATH", &dir);
            found.add_below("LD_LIBRARY_PATH", &dir);
        }
        let reply = found.into_reply();
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(reply.as_array().unwrap().len(), MOST + 1);
        assert_eq!(reply[MOST]["left_out"], 2);
    }

    #[test]
    fn a_version_may_be_named_in_place_of_a_file() {
        let Answer::Value(value) = named("2.27.5") else {
            panic!("no value")
        };
        assert_eq!(*value, json!([{"from": "--nccl", "version": "2.27.5"}]));
        let Answer::Value(value) = named("/no/such/libnccl.so.2") else {
            panic!("no value")
        };
        assert_eq!(*value, json!([]));
    }
}
