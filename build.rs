//! Puts the files of `checks/` into the binary.

#![expect(
    clippy::disallowed_methods,
    reason = "a build script reads the source tree and writes to OUT_DIR"
)]

use std::fmt::Write as _;
use std::io::Write as _;
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
    // Who examines a node needs no examples: the program has the checks without them, the tests have them whole. Advice is wanted where
    // something is found: the program has it packed.
    let mut list = String::from("&[\n");
    let mut with_examples = list.clone();
    let mut packed = String::new();
    for (number, path) in found.iter().enumerate() {
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
        let (judged, advice) = apart(head);
        packed.push_str(&advice);
        packed.push('\0');
        writeln!(list, "    ({inside:?}, {judged:?}, Some({number})),")
            .map_err(io::Error::other)?;
        writeln!(
            with_examples,
            "    ({inside:?}, include_str!({whole:?}), None),"
        )
        .map_err(io::Error::other)?;
    }
    list.push_str("]\n");
    with_examples.push_str("]\n");
    fs::write(out.join("checks.rs"), list)?;
    let best = flate2::Compression::best();
    let mut pack = flate2::write::ZlibEncoder::new(Vec::new(), best);
    pack.write_all(packed.as_bytes())?;
    fs::write(out.join("advice.z"), pack.finish()?)?;
    fs::write(out.join("checks_with_examples.rs"), with_examples)?;

    let retired = match fs::read_to_string(checks.join("RETIRED")) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    fs::write(out.join("RETIRED"), retired)
}

/// A file without its advice (the keys `why`, `fix` and `see`), and the advice.
fn apart(text: &str) -> (String, String) {
    let (mut judged, mut advice) = (String::new(), String::new());
    let (mut in_advice, mut in_table, mut in_string) = (false, false, false);
    for line in text.split_inclusive('\n') {
        if !in_string {
            in_table |= line.starts_with('[');
            let key = line.split(['=', ' ']).next().unwrap_or_default();
            let begins = line.starts_with(|c: char| c.is_ascii_lowercase());
            if in_table || begins {
                in_advice = !in_table && matches!(key, "why" | "fix" | "see");
            }
        }
        in_string ^= line.matches("\"\"\"").count() % 2 == 1;
        match in_advice {
            true => advice.push_str(line),
            false => judged.push_str(line),
        }
    }
    (judged, advice)
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
