//! What ARCHITECTURE.md, CONTRIBUTING.md, README.md and SECURITY.md say of the tree is true of it.

use std::collections::BTreeSet;
use std::path::Path;

use crate::imports::ROOMS;

const DOCUMENTS: [&str; 4] = [
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
];

fn read(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// What stands between backquotes, blocks of code left out.
fn quoted(text: &str) -> Vec<&str> {
    let outside = text.split("```").step_by(2);
    outside
        .flat_map(|part| part.split('`').skip(1).step_by(2))
        .collect()
}

#[test]
fn paths_that_documents_name_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for document in DOCUMENTS {
        let text = read(document);
        let words = quoted(&text).into_iter().flat_map(str::split_whitespace);
        let is_path = |word: &&str| {
            let tops = ["src/", "checks/", "tests/", "fixtures/", "benches/", "man/"];
            tops.iter().any(|top| word.starts_with(top)) && !word.contains(['*', '{', '['])
        };
        for word in words.filter(is_path) {
            let path = word.replace("SUBJECT", "port");
            assert!(root.join(&path).exists(), "{document} names {path}");
            count += 1;
        }
    }
    assert!(count > 60, "{count} paths");
}

#[test]
fn targets_that_documents_name_are_in_the_makefile() {
    let makefile = read("Makefile");
    for document in DOCUMENTS {
        let text = read(document);
        for word in quoted(&text) {
            let Some(target) = word.strip_prefix("make ") else {
                continue;
            };
            let rule = format!("\n{target}:");
            assert!(makefile.contains(&rule), "{document} names make {target}");
        }
    }
}

#[test]
fn the_table_of_rooms_is_the_one_that_is_held() {
    let text = read("ARCHITECTURE.md");
    let table = text.split("\n| room |").nth(1).unwrap();
    let table = table.split("\n\n").next().unwrap();
    let mut found = BTreeSet::new();
    for row in table.lines().skip(2) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let room = cells[0].trim_matches('`').to_owned();
        let may: BTreeSet<String> = match cells[2] {
            "all" => continue,
            cell => quoted(cell).into_iter().map(str::to_owned).collect(),
        };
        found.insert((room, may));
    }
    let held: BTreeSet<(String, BTreeSet<String>)> = ROOMS
        .iter()
        .filter(|(room, _)| *room != "cli")
        .map(|(room, may)| {
            let may = may.iter().map(|other| (*other).to_owned()).collect();
            ((*room).to_owned(), may)
        })
        .collect();
    assert_eq!(found, held);
}

#[test]
fn variables_of_the_tests_are_told() {
    let text = read("CONTRIBUTING.md");
    let told: BTreeSet<&str> = quoted(&text)
        .into_iter()
        .filter(|word| word.starts_with("RDMA_DOCTOR_"))
        .collect();
    let main = read("tests/suite/main.rs");
    let used: BTreeSet<&str> = quoted(&main)
        .into_iter()
        .map(|word| word.split('=').next().unwrap_or(word))
        .filter(|word| word.starts_with("RDMA_DOCTOR_"))
        .collect();
    assert!(used.is_subset(&told), "{used:?} and {told:?}");
}

/// README.md shows what its commands on bundled files print, as it is, up to a line with `…`: a report up to where it counts
/// the catalogue's checks and seconds. `RDMA_DOCTOR_BLESS=1` writes it.
#[test]
fn the_readme_shows_what_its_commands_print() {
    const PROMPT: &str = "    $ rdma-doctor ";
    const END: &str = "    …\n";
    let readme = read("README.md");
    let mut blocks = readme.split(PROMPT);
    let mut made = blocks.next().unwrap().to_owned();
    let mut count = 0;
    for block in blocks {
        let (words, rest) = block.split_once('\n').unwrap();
        let (stored, after) = rest.split_once(END).unwrap();
        let out = std::process::Command::new(crate::place::doctor())
            .args(words.split(' '))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        assert!(out.status.code().is_some_and(|code| code <= 3), "{words}");
        let printed = String::from_utf8(out.stdout).unwrap();
        let shown = printed.split("\nexplain ").next().unwrap();
        // Of a long one as many lines as are there.
        let lines = match words.starts_with("check fixtures/rxe") {
            true => usize::MAX,
            false => stored.lines().count(),
        };
        let indented = |line: &str| format!("    {line}").trim_end().to_owned() + "\n";
        let expected: String = shown.lines().take(lines).map(indented).collect();
        made.extend([PROMPT, words, "\n", &expected, END, after]);
        count += 1;
    }
    assert!(count >= 5, "{count} commands");
    if std::env::var_os("RDMA_DOCTOR_BLESS").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
        std::fs::write(path, made).unwrap();
    } else {
        assert!(readme == made, "not what it prints: make bless\n{made}");
    }
}
