//! What a node that was started to try the ways to others says on its standard output.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::examine::recording_text::to_text;
use crate::measure::plan::pairs::{NAME, Results};
use crate::measure::plan::reach::TriedWays;
use crate::source::recording::{Recording, RecordingBudget};
use crate::source::wire::{Header, VERSION};

/// The memory of the ways of one kind.
const MOST_OF_PART: u64 = 256 << 20;

/// What came of the ways: rank 0 says it, and of the others those that did not reach rank 0.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct WaysMessage {
    /// What came of each kind of way, as the text of a recording.
    pub parts: Vec<String>,
    /// What was not tried, and why.
    pub left_out: Vec<String>,
    /// Where rank 0 was not reached, and what the kernel said.
    pub unreached: Option<String>,
}

impl WaysMessage {
    /// The message of rank 0.
    pub fn of_tried_ways(tried: &TriedWays) -> Self {
        WaysMessage {
            parts: tried.parts.iter().map(text_of).collect(),
            left_out: tried.left_out.clone(),
            unreached: None,
        }
    }

    /// What came of the ways. A part that is not understood was not tried.
    pub fn tried(self) -> TriedWays {
        let mut tried = TriedWays {
            left_out: self.left_out,
            ..TriedWays::default()
        };
        for text in &self.parts {
            match parse_part(text) {
                Ok(results) => tried.parts.push(results),
                Err(why) => tried.left_out.push(format!("what came of it: {why}")),
            }
        }
        tried
    }
}

fn text_of(results: &Results) -> String {
    let mut recording = Recording::new(Header {
        version: VERSION.to_owned(),
        ..Header::default()
    });
    for line in results.lines(0) {
        recording.add(line);
    }
    recording.end();
    to_text(&recording, None)
}

fn parse_part(text: &str) -> Result<Results, String> {
    let budget = RecordingBudget::of(MOST_OF_PART);
    let recording = Recording::read_within(text.as_bytes(), Path::new("ways"), budget)
        .map_err(|error| error.to_string())?;
    Results::read(&recording.of(NAME)).map_err(|refusal| refusal.to_string())
}
