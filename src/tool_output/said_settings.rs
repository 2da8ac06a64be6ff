//! Settings that people name in a sentence or in the command of a job: `NCCL_IB_TC=104`. Whether they
//! are in force nobody shows; what another output refutes, it refutes.

use super::Block;

/// The tool of a block of these.
pub const SAID_SETTINGS: &str = "said-settings";

/// Libraries whose settings are looked for.
const LIBRARIES: [&str; 4] = ["NCCL_", "UCX_", "NVSHMEM_", "GLOO_"];

/// The settings in a line, one after the other.
fn settings(line: &str) -> impl Iterator<Item = &str> {
    let is_around = |c: char| c.is_whitespace() || matches!(c, '(' | ')' | '`' | '"' | '\'' | ';');
    let words = line.split(is_around);
    let words = words.map(|word| word.trim_end_matches([',', '.', ':']));
    words.filter(|word| is_setting(word))
}

fn is_setting(word: &str) -> bool {
    let is_of = LIBRARIES.iter().any(|library| word.starts_with(library));
    let Some((name, value)) = word.split_once('=').filter(|_| is_of) else {
        return false;
    };
    let is_name = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    name.bytes().all(is_name) && !value.is_empty() && !value.starts_with('$')
}

/// The settings that stand outside of outputs, as one; `None` where there are none, or several
/// hosts, of which nobody says whose they are.
pub(super) fn block<'t>(
    lines: impl Iterator<Item = (u64, &'t str)>,
    outputs: &[Block],
) -> Option<Block> {
    let host = outputs.first().and_then(|first| first.host.clone());
    if outputs.is_empty() || outputs.iter().any(|output| output.host != host) {
        return None;
    }
    let found: Vec<(u64, String)> = lines
        .flat_map(|(number, line)| settings(line).map(move |one| (number, one.to_owned())))
        .take(MOST)
        .collect();
    let is_read = |number: &u64| {
        let of = outputs.iter().flat_map(|output| &output.lines);
        of.clone().any(|(line, _)| line == number)
    };
    let lines: Vec<(u64, String)> = found.into_iter().filter(|(at, _)| !is_read(at)).collect();
    (!lines.is_empty()).then(|| Block {
        host,
        argv: vec![SAID_SETTINGS.to_owned()],
        is_cut: false,
        by_mark: true,
        lines,
    })
}

/// So many settings people name.
const MOST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_and_commands_name_settings() {
        let of = |line| settings(line).collect::<Vec<_>>();
        assert_eq!(
            of("we tag with DSCP 26 (NCCL_IB_TC=104) and"),
            ["NCCL_IB_TC=104"]
        );
        assert_eq!(
            of("$ mpirun -x NCCL_IB_HCA=mlx5_0,mlx5_1 -x UCX_TLS=rc ./a.out"),
            ["NCCL_IB_HCA=mlx5_0,mlx5_1", "UCX_TLS=rc"]
        );
        assert_eq!(of("set NCCL_IB_TC=$TC, or NCCL_DEBUG"), Vec::<&str>::new());
    }
}
