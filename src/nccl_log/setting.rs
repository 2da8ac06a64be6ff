//! Settings of NCCL in commands, scripts and files: `export NAME=value`, `-x NAME=value` of mpirun, `-e NAME=value` of docker, `NAME: value` of YAML.
//!
//! What a sentence reports about a setting is none: before the name stands nothing, another setting, or a word that sets one.

use super::text::contains;

/// Words after which a setting stands.
const SETTERS: [&str; 10] = [
    "export", "-x", "-e", "--env", "-env", "-genv", "env", "ENV", "-", "+",
];

/// The settings of a line.
pub fn settings(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut sets = true;
    let of_command = line.split_whitespace().filter_map(move |word| {
        let assigns = word.contains('=');
        let found = assigns.then(|| assignment(word)).flatten();
        let own = word.starts_with("--env=") || word.starts_with("-eNCCL_");
        let found = found.filter(|_| sets || own);
        // What a logger or a launcher puts first: a time, a level in brackets, a rank.
        let number = |b: u8| b.is_ascii_digit() || b":.,-/".contains(&b);
        let tag = word.starts_with('[') || word.ends_with([']', ':']) || word.bytes().all(number);
        sets = found.is_some() || SETTERS.contains(&word) || assigns && sets || tag && sets;
        found
    });
    // What is in braces is JSON, or a map of Python.
    let (_, inside) = line.split_once('{').unwrap_or_default();
    let members = inside.split(['{', ',', '}']).filter_map(parse_yaml);
    of_command.chain(parse_yaml(line)).chain(members)
}

/// `NAME=value`, also behind `--env=`, and in quotation marks.
fn assignment(word: &str) -> Option<(&str, &str)> {
    let word = word.strip_prefix("--env=").unwrap_or(word);
    let word = word.strip_prefix("-e").unwrap_or(word);
    let (name, value) = word.trim_start_matches(['"', '\'']).split_once('=')?;
    let value = value.trim_end_matches([';', '\\', ',']);
    is_name(name).then_some((name, value.trim_matches(['"', '\''])))
}

/// `NAME: value`, alone on its line.
fn parse_yaml(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.trim().split_once(": ")?;
    let name = name.trim_matches(['"', '\'']);
    let value = value.trim().trim_end_matches(',');
    (is_name(name) && !value.contains(' ')).then_some((name, value.trim_matches(['"', '\''])))
}

fn is_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    name.starts_with("NCCL_") && name.bytes().all(plain)
}

/// `- name: NAME` of Kubernetes: the value is in the next line.
pub(super) fn announced(line: &[u8]) -> Option<&[u8]> {
    let line = line.trim_ascii();
    let line = line.strip_prefix(b"- ").unwrap_or(line);
    let name = line.strip_prefix(b"name: ")?.trim_ascii();
    is_name(std::str::from_utf8(name).ok()?).then_some(name)
}

/// The setting of an announced name, as a line of a map.
pub(super) fn with_value(name: &[u8], next: &[u8]) -> Option<Vec<u8>> {
    let value = next.trim_ascii().strip_prefix(b"value:")?.trim_ascii();
    Some([name, b": ", value].concat())
}

/// Whether a line of a command or a file sets variables of NCCL.
pub(super) fn sets(line: &[u8]) -> bool {
    contains(line, "NCCL_")
        && std::str::from_utf8(line).is_ok_and(|line| settings(line).next().is_some())
}

#[cfg(test)]
mod tests {
    use super::{announced, settings, with_value};

    #[test]
    fn spellings() {
        let of = |line| settings(line).collect::<Vec<_>>();
        let p2p = ("NCCL_P2P_DISABLE", "1");
        for line in [
            "NCCL_P2P_DISABLE=1 python train.py",
            "export NCCL_P2P_DISABLE=1",
            "mpirun -np 2 -x NCCL_P2P_DISABLE=1 ./a",
            "docker run -e NCCL_P2P_DISABLE=1 -it x",
            "docker run --env=NCCL_P2P_DISABLE=1 x",
            "docker run -e \"NCCL_P2P_DISABLE=1\" x",
            "OMP_NUM_THREADS=1 NCCL_P2P_DISABLE=1 ./a",
            "  NCCL_P2P_DISABLE: \"1\"",
            "\"env\": {\"NCCL_P2P_DISABLE\": \"1\"}",
            "{'env_vars': {'NCCL_P2P_DISABLE': '1'}}",
            "[2025-04-04 04:04:04,404] [INFO] [launch.py:139:main] 0 NCCL_P2P_DISABLE=1",
        ] {
            assert_eq!(of(line), [p2p], "{line}");
        }
        for line in [
            "have you tried NCCL_P2P_DISABLE=1 ?",
            "unset NCCL_P2P_DISABLE",
            "# NCCL_P2P_DISABLE=1 was used before",
            "see `NCCL_P2P_DISABLE=1`",
            "NCCL_P2P_DISABLE: what does it do",
        ] {
            assert_eq!(of(line), [], "{line}");
        }
    }

    #[test]
    fn two_lines_of_kubernetes() {
        let name = announced(b"    - name: NCCL_DEBUG").unwrap();
        let line = with_value(name, b"      value: INFO");
        assert_eq!(line.as_deref(), Some(&b"NCCL_DEBUG: INFO"[..]));
        assert_eq!(with_value(name, b"    - name: X"), None);
        assert_eq!(announced(b"name: trainer"), None);
    }
}
