//! NCCL's configuration files, line by line, as `setEnvFile` of `src/misc/param.cc` reads them.

/// Bytes that a name and a value have at most.
const MOST: usize = 1023;

/// The effect of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// It sets a variable.
    Sets {
        /// The line's number, from 1.
        line: usize,
        /// All before the first `=`, blanks included.
        name: String,
        /// All after it, with a carriage return where the line ends in one.
        value: String,
    },
    /// It has no `=`, and sets nothing.
    Nothing { line: usize, text: String },
}

/// The lines of a file that are neither empty nor begin with `#`.
pub(super) fn lines(text: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    let floor = |text: &str| text[..text.floor_char_boundary(MOST)].to_owned();
    for (at, line) in text.split('\n').enumerate() {
        // C's strings end at a NUL.
        let line = line.split('\0').next().unwrap_or("");
        if line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        let number = at + 1;
        lines.push(match line.split_once('=') {
            Some((name, value)) => Line::Sets {
                line: number,
                name: floor(name),
                value: floor(value),
            },
            None => Line::Nothing {
                line: number,
                text: floor(line.trim()),
            },
        });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(line: usize, name: &str, value: &str) -> Line {
        Line::Sets {
            line,
            name: name.into(),
            value: value.into(),
        }
    }

    #[test]
    fn lines_are_split_at_the_first_equals_sign_and_nothing_is_trimmed() {
        let text = "# comment\nNCCL_SOCKET_IFNAME==ens1f0\n NCCL_DEBUG = INFO \nexport NCCL_X=\"a b\"\r\n\nNCCL_ALGO\nNCCL_P=";
        assert_eq!(
            lines(text),
            [
                sets(2, "NCCL_SOCKET_IFNAME", "=ens1f0"),
                sets(3, " NCCL_DEBUG ", " INFO "),
                sets(4, "export NCCL_X", "\"a b\"\r"),
                Line::Nothing {
                    line: 6,
                    text: "NCCL_ALGO".into()
                },
                sets(7, "NCCL_P", ""),
            ]
        );
    }

    #[test]
    fn long_values_are_cut_and_a_nul_ends_a_line() {
        let text = format!("A={}\nB=x\0y\n", "z".repeat(2000));
        let found = lines(&text);
        assert_eq!(found[0], sets(1, "A", &"z".repeat(1023)));
        assert_eq!(found[1], sets(2, "B", "x"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text: String) {
            let _ = lines(&text);
        }
    }
}
