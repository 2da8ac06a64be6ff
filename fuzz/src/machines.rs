//! A recorded machine of which some replies are others, to its report.
//!
//! An input is a list of changes: which reply (two bytes), what becomes of it (one), how long the
//! bytes for that are (one), and these. The first byte chooses the machine.

use std::fs::File;
use std::path::Path;
use std::sync::OnceLock;

use rdma_doctor::source::recording::{Recording, RecordingBudget};
use rdma_doctor::source::wire::Line;
use rdma_doctor::source::{Answer, Errno, Refusal, Reply};

/// The recorded machines.
const BASES: [&str; 4] = [
    "modelled-gpu-node-acs.jsonl",
    "modelled-ib.jsonl",
    "modelled-roce.jsonl",
    "rxe-healthy.jsonl.zst",
];

static RECORDED: [OnceLock<Recording>; BASES.len()] = [const { OnceLock::new() }; BASES.len()];

/// Tries one input.
pub fn run(bytes: &[u8]) {
    let Some((which, changes)) = bytes.split_first() else {
        return;
    };
    let which = usize::from(*which) % BASES.len();
    let base = RECORDED[which].get_or_init(|| recorded(BASES[which]));
    super::judged::to_the_end(&[changed(base, changes)]);
}

/// A recorded machine.
pub fn recorded(name: &str) -> Recording {
    let path = super::fixtures().join(name);
    let files = |path: &Path| Ok((File::open(path)?, 0));
    Recording::open_with(&path, &files, RecordingBudget::default())
        .expect("the fixture is a recording")
}

fn changed(base: &Recording, mut changes: &[u8]) -> Recording {
    let mut lines = base.to_lines();
    while let [low, high, what, length, rest @ ..] = changes {
        let length = usize::from(*length).min(rest.len());
        let (payload, others) = rest.split_at(length);
        changes = others;
        let at = usize::from(u16::from_le_bytes([*low, *high])) % lines.len().max(1);
        let other = match lines.get(usize::from(*what) % lines.len().max(1)) {
            Some(Line::Reply { reply, .. }) => Some(reply.clone()),
            _ => None,
        };
        if let Some(Line::Reply { reply, .. }) = lines.get_mut(at) {
            change(reply, *what, payload, other);
        }
    }
    let mut recording = Recording::new(base.header.clone());
    for line in lines {
        recording.add(line);
    }
    recording.end();
    recording
}

fn change(reply: &mut Reply, what: u8, payload: &[u8], other: Option<Reply>) {
    let text = String::from_utf8_lossy(payload);
    let number = payload.first().copied().unwrap_or(0);
    reply.said = match (what % 9, &reply.said) {
        (0, _) => Ok(Answer::Text(text.as_ref().into())),
        (1, _) => Ok(Answer::Bytes(payload.into())),
        (2, _) => Ok(Answer::Names(text.split('\n').map(Into::into).collect())),
        (3, _) => match serde_json::from_str(&text) {
            Ok(value) => Ok(Answer::Value(std::sync::Arc::new(value))),
            Err(_) => return,
        },
        (4, _) => Err(Refusal::Errno(Errno(i32::from(number)))),
        (5, _) => Err(Refusal::TooLarge),
        // A part of it stays, before what comes.
        (6, Ok(Answer::Text(own))) => {
            let kept: String = own.chars().take(usize::from(number)).collect();
            Ok(Answer::Text((kept + text.get(1..).unwrap_or("")).into()))
        }
        (6 | 7, Ok(Answer::Bytes(own))) => {
            let mut own = own.to_vec();
            for (at, byte) in payload
                .chunks(2)
                .filter_map(|two| Some((two.first()?, two.get(1)?)))
            {
                if let Some(place) = own.get_mut(usize::from(*at)) {
                    *place = *byte;
                }
            }
            Ok(Answer::Bytes(own.into()))
        }
        (7, Ok(Answer::Text(own))) => Ok(Answer::Text(own.repeat(usize::from(number % 16)).into())),
        (8, _) => match other {
            Some(other) => other.said,
            None => return,
        },
        _ => return,
    };
}
