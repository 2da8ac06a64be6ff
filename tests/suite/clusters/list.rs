//! Clusters made of fixtures: `fixtures/clusters/NAME.cluster` lists nodes, each a recording that is here already with what is other on that node.
//!
//! ```text
//! {"about":"what it is modelled on","expect":"n[1-4]"}
//! {"nodes":"n[1-3]","of":"modelled-ib.jsonl"}
//! {"nodes":"n4","of":"modelled-ib.jsonl","with":[{"q":{"read":"…"},"text":"…"}],"replace":[["from","to"]],"cut":true,"redact":"a key"}
//! ```
//!
//! Each node gets identities and a boot id of its own: they are its recording's pseudonyms under the node's own key.

use std::path::{Path, PathBuf};

use rdma_doctor::examine::recording_text;
use rdma_doctor::nodeset;
use rdma_doctor::source::Question;
use rdma_doctor::source::recording::Recording;
use rdma_doctor::source::redact::{Key, Redactor};
use rdma_doctor::source::wire::{self, Line};
use serde::Deserialize;

/// The first line.
#[derive(Deserialize)]
pub(crate) struct Head {
    /// What is modelled, on what.
    pub(crate) about: String,
    /// Who is expected.
    #[serde(default)]
    pub(crate) expect: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Member {
    nodes: String,
    of: String,
    #[serde(default)]
    with: Vec<serde_json::Map<String, serde_json::Value>>,
    /// Texts that are other wherever they stand in what is recorded.
    #[serde(default)]
    replace: Vec<(String, String)>,
    #[serde(default)]
    cut: bool,
    /// The key under which it is redacted; "alone" is one of its own.
    #[serde(default)]
    redact: Option<String>,
    /// Whose identities it has, where they are another's; its boot id is its own.
    #[serde(default)]
    identities_of: Option<u8>,
}

/// A cluster.
pub(crate) struct Cluster {
    pub(crate) head: Head,
    pub(crate) recordings: Vec<Recording>,
}

/// All clusters, by name.
pub(crate) fn all() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/clusters");
    let mut found: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|end| end == "cluster"))
        .collect();
    found.sort();
    assert!(found.len() >= 5, "the clusters are there");
    found
}

/// Reads a cluster and makes its nodes.
pub(crate) fn open(path: &Path) -> Cluster {
    let text = std::fs::read_to_string(path).unwrap();
    let (head, members) = text.split_once('\n').unwrap();
    let head: Head = serde_json::from_str(head).unwrap();
    let mut recordings = Vec::new();
    for line in members.lines() {
        let member: Member =
            serde_json::from_str(line).unwrap_or_else(|e| panic!("{path:?}: {line}: {e}"));
        for name in nodeset::expand(&member.nodes).unwrap() {
            let number = u8::try_from(recordings.len() + 1).unwrap();
            recordings.push(node(path, &member, &name, number));
        }
    }
    Cluster { head, recordings }
}

fn node(path: &Path, member: &Member, name: &str, number: u8) -> Recording {
    let fixtures = path.parent().and_then(Path::parent).unwrap();
    let raw = Recording::open(&fixtures.join(&member.of)).unwrap();
    let mut lines = raw.to_lines();
    let key = Key::from_bytes([member.identities_of.unwrap_or(number); 16]);
    let mut redactor = Redactor::new(key, &raw.header.node, &[]);
    redactor.learn(&lines);
    lines = lines.into_iter().map(|line| redactor.line(line)).collect();
    let mut header = raw.header.clone();
    header.node = name.to_owned();
    // As an overlay, so that what is added takes the place of what is there.
    header.base = Some(member.of.clone());
    let mut made = Recording::new(header);
    for line in lines {
        let Some(mut text) = wire::write_line(&line) else {
            continue;
        };
        if let Line::Reply {
            question: Question::Read(file),
            ..
        } = &line
            && file.ends_with("/lid")
            && !text.contains("\"0x0\\n\"")
        {
            // Ports of one number have the same LID in the recording; in a fabric each has its own.
            let own = member.identities_of.unwrap_or(number);
            text = text.replace("\"0x", &format!("\"0x{own:x}"));
        }
        for (from, to) in &member.replace {
            text = text.replace(from, to);
        }
        made.add(wire::parse_line(&text).unwrap_or_else(|e| panic!("{path:?}: {text}: {e}")));
    }
    let boot = serde_json::json!({
        "q": {"read": "/proc/sys/kernel/random/boot_id"},
        "text": format!("{number:08x}-6b1d-4c3e-9a52-1f0e5d7c8b90\n"),
    });
    for part in boot.as_object().into_iter().chain(&member.with) {
        let mut part = part.clone();
        part.entry("probe").or_insert("*".into());
        part.entry("n").or_insert(0.into());
        part.entry("t").or_insert(1000.into());
        let line = serde_json::Value::Object(part).to_string();
        made.add(wire::parse_line(&line).unwrap_or_else(|e| panic!("{path:?}: {line}: {e}")));
    }
    made.header.base = None;
    let lines = match member.cut {
        true => 0,
        false => made.lines(),
    };
    made.add(Line::Complete { lines });
    match member.redact.as_deref() {
        None => made,
        Some(key) => {
            let key = match key {
                "alone" => Key::from_bytes([100 + number; 16]),
                key => Key::from_text(key),
            };
            let text = recording_text::to_text(&made, Some(key));
            Recording::read(text.as_bytes(), path).unwrap()
        }
    }
}
