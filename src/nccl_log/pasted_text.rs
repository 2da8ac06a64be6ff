//! What a paste, a chat, a mail program or a collector did to a text is taken back before anything
//! is read: characters of web pages, JSON records, marks of Markdown, quotes, broken lines.
//!
//! Only texts that people can have pasted are looked at; the log of a whole run goes past at full
//! speed. Each line keeps its number: where two pieces become one line again, an empty line stands
//! for the second.

mod broken_lines;
mod collector_prefix;
mod letters;
mod line_marks;
mod record_start;
mod records;

/// A longer text is no paste.
pub(super) const LONGEST: usize = 512 << 10;

/// The text as the programs wrote it.
pub fn restored(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let mut lines = letters::plain(&text);
    records::unwrap(&mut lines);
    let prefixes = collector_prefix::take(&mut lines);
    line_marks::strip(&mut lines);
    broken_lines::join(&mut lines, &prefixes);
    lines.iter_mut().for_each(line_marks::strip_enclosing);
    lines.iter_mut().for_each(name_driver);
    collector_prefix::put_back(&mut lines, &prefixes);
    let mut whole = lines.join("\n").into_bytes();
    if text.ends_with('\n') {
        whole.push(b'\n');
    } else if !text.is_empty() && matches!(whole.last(), None | Some(b'\n')) {
        // A last line of which nothing is left is still a line.
        whole.push(b' ');
    }
    whole
}

/// Only one driver writes of Xids, which people copy without its name.
fn name_driver(line: &mut String) {
    let found = line.find("Xid (PCI:").filter(|at| {
        let before = line.get(..*at).unwrap_or("");
        before.is_empty() || before.ends_with([' ', ':']) && !before.ends_with("NVRM: ")
    });
    if let Some(at) = found {
        line.insert_str(at, "NVRM: ");
    }
}

#[cfg(test)]
mod tests {
    use super::restored;

    fn of(text: &str) -> String {
        String::from_utf8(restored(text.as_bytes())).unwrap()
    }

    #[test]
    fn what_a_web_page_and_a_terminal_put_into_lines_is_taken_out() {
        for (pasted, plain) in [
            ("a\u{a0}b\u{200b}c\n", "a bc\n"),
            (
                "<p><code>peer 10.0.0.2&lt;41&gt; &amp; &quot;x&quot;</code></p>\n",
                "peer 10.0.0.2<41> & \"x\"\n",
            ),
            ("one&lt;<br>\ntwo<br/>\n", "one<\ntwo\n"),
            ("^[[31mred^[[0m and [1;32mgreen[0m\n", "red and green\n"),
            ("\u{1b}[31mred\u{1b}[0m\n", "red\n"),
            ("\u{2018}a\u{2019} \u{201c}b\u{201d}\n", "'a' \"b\"\n"),
            ("a\r\nb\r\n", "a\nb\n"),
            (
                "NCCL\tWARN\tCall\tto\tibv_reg_mr\tfailed\n",
                "NCCL WARN Call to ibv_reg_mr failed\n",
            ),
            // What looks alike and is a program's own.
            (
                "rate(x[5m]) of a <b> or <0>\n",
                "rate(x[5m]) of a <b> or <0>\n",
            ),
            ("DEV\tPORT\n\tState: Down\n", "DEV\tPORT\n\tState: Down\n"),
        ] {
            assert_eq!(of(pasted), plain, "{pasted:?}");
        }
    }

    #[test]
    fn marks_of_lines_are_taken_off_where_all_have_them() {
        for (pasted, plain) in [
            ("> a b\n> > c\n", "a b\nc\n"),
            ("- a b\n- c d\n", "a b\nc d\n"),
            ("1. a\n2. b\n", "a\nb\n"),
            ("`a b`\n", "a b\n"),
            ("**a b**\n\nprose\n", "a b\n\nprose\n"),
            ("| a b |\n| c |\n", "a b\nc\n"),
            (
                "512:n1:1:1 [0]\n513:n1:1:1 [0]\n",
                "n1:1:1 [0]\nn1:1:1 [0]\n",
            ),
            ("x/r.log:512:a\nx/r.log:519:b\n", "a\nb\n"),
            ("\"a \\\"b\\\"\",\n\"c\",\n", "a \"b\"\nc\n"),
            ("{\"log\":\"a b\\n\",\"stream\":\"stderr\"}\n", "a b\n"),
            (
                "2026-01-02T03:04:05.1Z stderr F a b\n",
                "2026-01-02T03:04:05.1Z a b\n",
            ),
            (
                "(Worker pid=7, ip=10.0.0.1) a\n(Worker pid=8) b\n",
                "a\nb\n",
            ),
            ("(Worker pid=7) a\nb\n", "(Worker pid=7) a\nb\n"),
            // A label of srun says which rank it is, a map of YAML has bullets, a table has pipes.
            ("0: a\n1: b\n", "0: a\n1: b\n"),
            (
                "env:\n- name: A\n  value: b\n",
                "env:\n- name: A\n  value: b\n",
            ),
            ("+---+\n| a |\n+---+\n", "+---+\n| a |\n+---+\n"),
        ] {
            assert_eq!(of(pasted), plain, "{pasted:?}");
        }
    }

    #[test]
    fn only_a_record_keeps_what_a_collector_put_before_it() {
        for (pasted, plain) in [
            (
                "[1,3]<stderr>:n1$ ulimit -l\n[1,3]<stderr>:64\n[1,3]<stderr>:ERROR: x failed\n",
                "n1$ ulimit -l\n64\n[1,3]<stderr>:ERROR: x failed\n",
            ),
            (
                "[rank3]:     raise Error(\"a\")\n[rank3]: RuntimeError: a\n",
                "    raise Error(\"a\")\n[rank3]: RuntimeError: a\n",
            ),
            (
                "n7: env:\nn7: - name: NCCL_DEBUG\nn7:   value: INFO\nn7: NCCL_ALGO: Ring\n",
                "n7: env:\nn7: - name: NCCL_DEBUG\n  value: INFO\nNCCL_ALGO: Ring\n",
            ),
            // What each line has is of its own host.
            ("n7: a b\nn8:   c\n", "n7: a b\nn8:   c\n"),
            // A tool's output is divided by what stands before it.
            (
                "n7: CA 'mlx5_0'\nn7: \tPort 1:\n",
                "n7: CA 'mlx5_0'\nn7: \tPort 1:\n",
            ),
            (
                "2026-01-02T03:04:05.1Z stderr F * `UCX  ERROR a b`\n",
                "2026-01-02T03:04:05.1Z UCX  ERROR a b\n",
            ),
            (
                "n7: Xid (PCI:0000:c1:00): 79, pid=1\n",
                "n7: NVRM: Xid (PCI:0000:c1:00): 79, pid=1\n",
            ),
        ] {
            assert_eq!(of(pasted), plain, "{pasted:?}");
        }
    }

    #[test]
    fn a_broken_line_is_one_again_and_two_short_errors_stay_two() {
        let long = "kiwi9:73076:73185 [4] transport/net_ib.cc:1238 NCCL WARN NET/IB : Got completion \
            from peer 10.8.0.5<37948> with error 12, opcode 2, len 1, vendor err 129";
        let (first, rest) = long.split_at(80);
        assert_eq!(of(&format!("{first}\n{rest}\n")), format!("{long}\n\n"));
        let words = "kiwi9:73076:73185 [4] transport/net_ib.cc:1238 NCCL WARN NET/IB : Got\n\
            completion from peer 10.8.0.5<37948> with error 12, opcode 2, len 1, vendor\nerr 129\n";
        assert_eq!(of(words), format!("{long}\n\n\n"));
        let token =
            "k:1:2 [0] x.cc:1 NCCL WARN socketStartConnect: Connect to 10\n.8.0.31<38007> failed\n";
        assert_eq!(
            of(token),
            "k:1:2 [0] x.cc:1 NCCL WARN socketStartConnect: Connect to 10.8.0.31<38007> failed\n\n"
        );
        for two in [
            "Call to ibv_reg_mr failed\nConnection refused\n",
            "k:1:2 [0] NCCL INFO Using network IB\nfailed\n",
            "$ ibv_devinfo -d mlx5_0 -v --and-more-words-up-to-the-edge-of-the-text-here-12345678\nhca_id: mlx5_0\n",
        ] {
            assert_eq!(of(two), two);
        }
    }
}
