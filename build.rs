//! Puts the files of `checks/` into the binary.

#![expect(
    clippy::disallowed_methods,
    reason = "a build script reads the source tree and writes to OUT_DIR"
)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let variable = |name| env::var_os(name).ok_or_else(|| io::Error::other(name));
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(variable("OUT_DIR")?);
    let checks = root.join("checks");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=checks");

    let mut found = Vec::new();
    if checks.is_dir() {
        collect(&checks, &mut found)?;
    }
    found.sort();
    // Who examines a node needs no examples: the program has the checks without them, the tests have them whole.
    let mut list = String::from("&[\n");
    let mut with_examples = list.clone();
    for path in &found {
        let inside = path.strip_prefix(&root).map_err(io::Error::other)?;
        let inside = inside
            .to_str()
            .ok_or_else(|| io::Error::other("a name is no UTF-8"))?;
        let whole = path
            .to_str()
            .ok_or_else(|| io::Error::other("a path is no UTF-8"))?;
        let text = fs::read_to_string(path)?;
        let head = match text.find("\n[[example]]") {
            Some(at) => &text[..=at],
            None => &text,
        };
        writeln!(list, "    ({inside:?}, {head:?}),").map_err(io::Error::other)?;
        writeln!(with_examples, "    ({inside:?}, include_str!({whole:?})),")
            .map_err(io::Error::other)?;
    }
    list.push_str("]\n");
    with_examples.push_str("]\n");
    fs::write(out.join("checks.rs"), list)?;
    fs::write(out.join("checks_with_examples.rs"), with_examples)?;

    let retired = match fs::read_to_string(checks.join("RETIRED")) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    fs::write(out.join("RETIRED"), retired)
}

fn collect(dir: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, found)?;
        } else if path.extension().is_some_and(|e| e == "toml") {
            found.push(path);
        }
    }
    Ok(())
}
