//! Lines of programs other than NCCL that are failures, symptoms of one or known to be harmless, each
//! with its class, and lines near to them that are none of these (`-`): `programs.txt`.

use crate::nccl_log::event_table::{class, match_framework};

#[test]
fn each_line_of_a_program_has_its_class() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for row in include_str!("programs.txt").lines() {
        let (wanted, line) = row.split_once('\t').unwrap();
        let found = match_framework(line.as_bytes()).map_or("-", class);
        if found != wanted {
            wrong.push(format!("{found}, not {wanted}: {line}"));
        }
        seen += 1;
    }
    assert!(seen > 100, "{seen}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
