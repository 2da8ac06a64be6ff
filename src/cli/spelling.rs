//! The spelling of options: what was renamed works for one release with a notice, and `--json` is short for `--format json`.

use std::ffi::OsString;

use crate::terminal;

/// A subcommand, its option as it was, and as it is; whether it was that only before the name of a recording, since it has another meaning now.
const RENAMED: &[(&str, &str, &str, bool)] = &[
    ("log", "-o", "--record", true),
    ("triage", "-o", "--record", true),
    ("bench", "-o", "--record", false),
    ("ablate", "-o", "--record", false),
    ("ablate", "--output", "--job-output", false),
    ("ablate", "--arm", "--run", false),
    ("ablate", "--arm-file", "--run-file", false),
    ("check", "--no-rehearsal", "--no-self-test", false),
    ("record", "--no-rehearsal", "--no-self-test", false),
    ("facts", "--no-rehearsal", "--no-self-test", false),
];

/// The arguments as the definition has them.
pub fn current(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.collect();
    // What follows is a job's own.
    let end = args
        .iter()
        .position(|arg| arg == "--")
        .unwrap_or(args.len());
    let named = |name: &str| args[..end].iter().skip(1).take(3).any(|arg| arg == name);
    let renamed: Vec<_> = RENAMED.iter().filter(|(name, ..)| named(name)).collect();
    for at in 1..end {
        if args[at] == "--json" {
            args[at] = "--format=json".into();
        }
        let text = args[at].to_string_lossy().into_owned();
        let (option, attached) = match text.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (text.as_str(), None),
        };
        let Some((name, was, is, meant)) = renamed.iter().find(|(_, was, ..)| option == *was)
        else {
            continue;
        };
        let next = args.get(at + 1).map(|value| value.to_string_lossy());
        let value = attached.map(Into::into).or(next);
        let is_recording =
            value.is_some_and(|value| value.ends_with(".jsonl") || value.ends_with(".zst"));
        if is_recording || !meant {
            terminal::say(&format!(
                "rdma-doctor: {name} {was} is now {is}; the old spelling goes with the next release"
            ));
            args[at] = match attached {
                Some(value) => format!("{is}={value}").into(),
                None => (*is).into(),
            };
        }
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(line: &str) -> String {
        let args = current(line.split(' ').map(OsString::from));
        let args: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
        args.join(" ")
    }

    #[test]
    fn removed_spellings_are_renamed() {
        for (was, is) in [
            (
                "d log a.txt -o b.jsonl.zst",
                "d log a.txt --record b.jsonl.zst",
            ),
            ("d log a.txt -o report.txt", "d log a.txt -o report.txt"),
            ("d bench p2p -o b", "d bench p2p --record b"),
            (
                "d ablate --output x -- job --output y --json",
                "d ablate --job-output x -- job --output y --json",
            ),
            ("d check --json", "d check --format=json"),
            ("d check --no-rehearsal", "d check --no-self-test"),
            (
                "d ablate --arm-file=a=b.txt --arm X=1",
                "d ablate --run-file=a=b.txt --run X=1",
            ),
            ("d record -o b.jsonl", "d record -o b.jsonl"),
        ] {
            assert_eq!(spelled(was), is);
        }
    }
}
