//! Puts the files of `checks/` and the tables of `src/` that are TOML into the binary.

#![expect(
    clippy::disallowed_methods,
    reason = "a build script reads the source tree and writes to OUT_DIR"
)]

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Tables that are texts: each key of a file is one, and becomes the expression `FILE.KEY.rs`.
const TABLES: [&str; 26] = [
    "src/derive/comparison/comparison_labels.toml",
    "src/derive/cuda_errors.toml",
    "src/derive/known_defects.toml",
    "src/derive/nccl/ranges.toml",
    "src/fact/counter_table.toml",
    "src/launch_variables.toml",
    "src/live/verbs/library/completion.toml",
    "src/nccl_log/events.toml",
    "src/nccl_log/failure_words.toml",
    "src/nccl_log/messages.toml",
    "src/nccl_log/shapes.toml",
    "src/probe/ethtool/speeds.toml",
    "src/probe/firewall/packet_words.toml",
    "src/probe/kernel_log/line_classes.toml",
    "src/probe/nccl_log/failures.toml",
    "src/probe/nccl_log/roles.toml",
    "src/probe/nvml/gpu_functions.toml",
    "src/probe/nvml/nvml_errors.toml",
    "src/probe/outputs/complaints.toml",
    "src/probe/outputs/self_stated.toml",
    "src/probe/outputs/named.toml",
    "src/source/kernel_log_markers.toml",
    "src/source/ordinary_reply.toml",
    "src/source/redact/kept.toml",
    "src/source/redact/launcher_marks.toml",
    "src/tool_output/marks.toml",
];

fn main() -> io::Result<()> {
    let variable = |name| env::var_os(name).ok_or_else(|| io::Error::other(name));
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(variable("OUT_DIR")?);
    let checks = root.join("checks");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=checks");

    println!("cargo:rerun-if-env-changed=SOURCE_DATE_EPOCH");
    let epoch = env::var("SOURCE_DATE_EPOCH").ok();
    let epoch = epoch.and_then(|text| text.parse::<u64>().ok());
    // 1 January 2026: nobody had this program before.
    println!(
        "cargo:rustc-env=RDMA_DOCTOR_RELEASED={}",
        epoch.unwrap_or(1_767_225_600)
    );

    let target = variable("TARGET")?;
    println!("cargo:rustc-env=RDMA_DOCTOR_TARGET={}", target.display());

    let mut found = Vec::new();
    if checks.is_dir() {
        collect(&checks, &mut found)?;
    }
    found.sort();
    // Who examines a node needs no examples, and no TOML: the program has the fields by which a check is judged one after the other, the
    // tests have the files. Advice is wanted where something is found: the program has it packed.
    let mut with_examples = String::from("&[\n");
    let mut judged = String::new();
    let mut packed = String::new();
    let mut examples = String::new();
    let mut constants = String::new();
    for path in &found {
        let wrong = |why: String| io::Error::other(format!("{}: {why}", path.display()));
        let inside = path.strip_prefix(&root).map_err(io::Error::other)?;
        let inside = inside
            .to_str()
            .ok_or_else(|| io::Error::other("a name is no UTF-8"))?;
        let whole = path
            .to_str()
            .ok_or_else(|| io::Error::other("a path is no UTF-8"))?;
        let text = fs::read_to_string(path)?;
        let table: toml::Table =
            (text.parse()).map_err(|e: toml::de::Error| wrong(e.to_string()))?;
        let id = inside
            .trim_start_matches("checks/")
            .trim_end_matches(".toml");
        for table in cases(table, id) {
            packed.push_str(&advice(&table));
            packed.push('\0');
            examples.push_str(&own_examples(&table));
            examples.push('\0');
            let fields = fields(&table).map_err(wrong)?;
            let limits = table.get("limits").and_then(toml::Value::as_table);
            for (name, value) in limits.into_iter().flatten() {
                constants.push_str(&constant(&fields[0], name, value).map_err(wrong)?);
            }
            for field in [inside]
                .into_iter()
                .chain(fields.iter().map(String::as_str))
            {
                judged.push_str(field);
                judged.push('\0');
            }
        }
        writeln!(with_examples, "    ({inside:?}, include_str!({whole:?})),")
            .map_err(io::Error::other)?;
    }
    with_examples.push_str("]\n");
    fs::write(out.join("checks.txt"), judged)?;
    fs::write(out.join("limits.rs"), constants)?;
    fs::write(out.join("advice.z"), pack(&packed)?)?;
    fs::write(out.join("examples.z"), pack(&examples)?)?;
    fs::write(out.join("checks_with_examples.rs"), with_examples)?;

    for file in TABLES {
        tables(&root.join(file), &out)?;
    }

    let retired = match fs::read_to_string(checks.join("RETIRED")) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    fs::write(out.join("RETIRED"), retired)
}

fn pack(text: &str) -> io::Result<Vec<u8>> {
    let best = flate2::Compression::best();
    let mut pack = flate2::write::ZlibEncoder::new(Vec::new(), best);
    pack.write_all(text.as_bytes())?;
    pack.finish()
}

/// Writes the tables of a file as expressions of Rust: a row of texts is its first with a slice of the rest, any other row a tuple.
fn tables(file: &Path, out: &Path) -> io::Result<()> {
    println!("cargo:rerun-if-changed={}", file.display());
    let wrong = |why: &str| io::Error::other(format!("{}: {why}", file.display()));
    let table: toml::Table =
        (fs::read_to_string(file)?.parse()).map_err(|e: toml::de::Error| wrong(&e.to_string()))?;
    for (key, rows) in &table {
        let rows = rows.as_array().into_iter().flatten();
        let rows = rows.map(|row| match row.as_array().map(Vec::as_slice) {
            Some([first, rest @ ..]) if !rest.is_empty() => {
                let texts = rest.iter().all(toml::Value::is_str) && first.is_str();
                let rest = list(rest)?;
                Some(match texts {
                    true => format!("({}, &[{rest}])", expression(first)?),
                    false => format!("({}, {rest})", expression(first)?),
                })
            }
            Some(_) => None,
            None => expression(row),
        });
        let rows: Option<Vec<String>> = rows.collect();
        let rows =
            rows.ok_or_else(|| wrong(&format!("{key}: texts, numbers and lists of them")))?;
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        let text = format!("&[\n{}\n]\n", rows.join(",\n"));
        fs::write(out.join(format!("{stem}.{key}.rs")), text)?;
    }
    Ok(())
}

/// A text, a number or a list of them in Rust.
fn expression(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(format!("{text:?}")),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Array(items) => Some(format!("&[{}]", list(items)?)),
        _ => None,
    }
}

fn list(items: &[toml::Value]) -> Option<String> {
    let items: Option<Vec<String>> = items.iter().map(expression).collect();
    Some(items?.join(", "))
}

/// The cases of a file as tables that state everything: what a case does not state is stated for all.
fn cases(mut head: toml::Table, id: &str) -> Vec<toml::Table> {
    let named = head.remove("case");
    head.insert("id".into(), id.into());
    let named = named.as_ref().and_then(toml::Value::as_array);
    let named = named
        .into_iter()
        .flatten()
        .filter_map(toml::Value::as_table);
    let of_head = head.contains_key("fails").then(|| head.clone());
    head.remove("example");
    let stated = named.map(|case| {
        let mut whole = head.clone();
        whole.extend(case.clone());
        whole
    });
    of_head.into_iter().chain(stated).collect()
}

/// A case's examples, as a file that has nothing else.
fn own_examples(case: &toml::Table) -> String {
    let examples = case.get_key_value("example");
    let only: toml::Table = examples
        .map(|(key, examples)| (key.clone(), examples.clone()))
        .into_iter()
        .collect();
    only.to_string()
}

/// By what a case is judged, in the order in which `src/check/built.rs` reads it. What is missing or of a wrong type is empty: the tests, which
/// read the files, say what is wrong with them.
fn fields(table: &toml::Table) -> Result<[String; 14], String> {
    let text = |key: &str| {
        let text = table.get(key).and_then(toml::Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let lines = |key: &str| {
        let texts = table.get(key).and_then(toml::Value::as_array);
        let texts = texts.into_iter().flatten();
        let texts: Vec<&str> = texts.filter_map(toml::Value::as_str).collect();
        texts.join("\n")
    };
    let limits = table.get("limits").and_then(toml::Value::as_table);
    let premises = match table.get("premise") {
        Some(toml::Value::Array(_)) => lines("premise"),
        _ => text("premise"),
    };
    let limits: Vec<String> = limits.into_iter().flatten().map(limit).collect();
    let joins = table.get("joined").and_then(toml::Value::as_array);
    let joins = joins.into_iter().flatten().map(join);
    let fields = [
        text("id"),
        text("title"),
        text("severity"),
        text("impact"),
        text("area"),
        text("subject"),
        premises,
        text("applies"),
        text("fails"),
        text("finding"),
        lines("explains"),
        lines("alias"),
        joins.collect::<Vec<_>>().join("\n"),
        limits.join("\n"),
    ];
    match fields.iter().any(|field| field.contains('\0')) {
        true => Err("a NUL in a text".into()),
        false => Ok(fields),
    }
}

/// A join on a line: subject, condition, kind and sentence, a tab between.
fn join(row: &toml::Value) -> String {
    let text = |key: &str| {
        row.get(key)
            .and_then(toml::Value::as_str)
            .unwrap_or_default()
    };
    let kind = if row.get("refutes").is_some() {
        "refutes"
    } else {
        "confirms"
    };
    [text("with"), text("when"), kind, text(kind)].join("\t")
}

/// A limit on a line: its name, the kind of its value, and the value, or the values, a tab before each.
fn limit((name, value): (&String, &toml::Value)) -> String {
    let list = |kind: &str, items: &[toml::Value]| {
        let items = items.iter().map(|item| match item {
            toml::Value::Integer(number) => format!("\t{number}"),
            item => format!("\t{}", item.as_str().unwrap_or_default()),
        });
        format!("{name}\t{kind}{}", items.collect::<String>())
    };
    match value {
        toml::Value::Integer(number) => format!("{name}\tcount\t{number}"),
        toml::Value::Array(items) if items.iter().all(toml::Value::is_str) => list("texts", items),
        toml::Value::Array(items) => list("counts", items),
        other => format!("{name}\tquantity\t{}", other.as_str().unwrap_or_default()),
    }
}

/// A limit that is one number, as a constant for `src/fact/limit.rs`: code that reads it names it, so that one that is not there does not compile.
fn constant(id: &str, name: &str, value: &toml::Value) -> Result<String, String> {
    let (kind, number) = match value {
        toml::Value::Integer(number) => ("u64", format!("{number}")),
        toml::Value::String(text) => quantity(text)?,
        _ => return Ok(String::new()),
    };
    let constant = format!("{id}_{name}")
        .to_uppercase()
        .replace(['/', '-'], "_");
    Ok(format!(
        "pub(super) const {constant}: Limit<{kind}> = Limit {{ check: {id:?}, name: {name:?}, built_in: {number} }};\n"
    ))
}

/// The type and the value of a quantity, in Rust. A test compares each with what the loader of checks reads.
fn quantity(text: &str) -> Result<(&'static str, String), String> {
    let unknown = || format!("`{text}` is no quantity of a limit");
    let (number, unit) = text.split_once(' ').ok_or_else(unknown)?;
    let number: f64 = number.parse().map_err(|_| unknown())?;
    let (kind, factor) = match unit {
        "%" => ("Percent", 1.0),
        "us" => ("Seconds", 1e-6),
        "ms" => ("Seconds", 1e-3),
        "s" => ("Seconds", 1.0),
        "min" => ("Seconds", 60.0),
        "h" => ("Seconds", 3600.0),
        "d" => ("Seconds", 86400.0),
        "/s" => ("PerSecond", 1.0),
        "/min" => ("PerSecond", 1.0 / 60.0),
        "/h" => ("PerSecond", 1.0 / 3600.0),
        "Mb/s" => ("BitRate", 1e6),
        "Gb/s" => ("BitRate", 1e9),
        "B" => ("Bytes", 1.0),
        "KiB" => ("Bytes", 1024.0),
        "MiB" => ("Bytes", 1048576.0),
        "GiB" => ("Bytes", 1073741824.0),
        _ => return Err(unknown()),
    };
    let value = number * factor;
    match kind {
        "BitRate" | "Bytes" => Ok((kind, format!("{kind}({value:.0})"))),
        _ => Ok((kind, format!("{kind}({value:?})"))),
    }
}

/// The keys `why`, `fix` and `see`, as `src/check/advice.rs` reads them.
fn advice(table: &toml::Table) -> String {
    let text = |key: &str| {
        table
            .get(key)
            .and_then(toml::Value::as_str)
            .unwrap_or_default()
    };
    let see = table.get("see").and_then(toml::Value::as_array);
    let see: Vec<&str> = see
        .into_iter()
        .flatten()
        .filter_map(toml::Value::as_str)
        .collect();
    format!("{}\u{1}{}\u{1}{}", text("why"), text("fix"), see.join("\n"))
}

fn collect(dir: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, found)?;
        } else if path.extension().is_some_and(|e| e == "toml")
            && !path.ends_with("checks/areas.toml")
        {
            found.push(path);
        }
    }
    Ok(())
}
