//! Which of a few commands run as processes, by the names that the kernel keeps.

use std::collections::BTreeSet;

use serde_json::json;

use crate::source::question::Call;
use crate::source::{Answer, Refusal};

/// `{"call":"running_commands","names":"ibacm opensm"}` → `{"running":["ibacm"],"all":true}`; `all` is false where processes
/// of other users are hidden (hidepid), so that one that is not named may run all the same.
#[expect(
    clippy::disallowed_methods,
    reason = "the processes are part of the machine"
)]
pub fn running(call: &Call) -> Result<Answer, Refusal> {
    let wanted: Vec<&str> = call
        .text("names")
        .unwrap_or("")
        .split_whitespace()
        .collect();
    let entries = std::fs::read_dir("/proc")?;
    let mut running = BTreeSet::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if !name.as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        // A process that ended meanwhile does not run.
        if let Ok(command) = std::fs::read_to_string(entry.path().join("comm"))
            && let Some(known) = wanted.iter().find(|known| **known == command.trim_end())
        {
            running.insert(*known);
        }
    }
    let all = std::fs::read_to_string("/proc/1/comm").is_ok();
    Ok(Answer::from(json!({ "running": running, "all": all })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs_and_another_does_not() {
        #[expect(clippy::disallowed_methods, reason = "a test looks at itself")]
        let own = std::fs::read_to_string("/proc/self/comm").unwrap();
        let own = own.trim_end().to_owned();
        let call = Call::new(
            "running_commands",
            [("names", format!("{own} no-such-daemon").as_str().into())],
        );
        let Ok(Answer::Value(value)) = running(&call) else {
            panic!("no value")
        };
        assert_eq!(value["running"], json!([own]));
        assert!(value["all"].is_boolean());
    }
}
