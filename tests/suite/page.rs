//! What fixtures are judged to be, in forms whose changes a person can review. `NAME.expect.toml` beside each is what `rdma-doctor test` holds it against. Of
//! some, `fixtures/expected` has a page: the whole report, and by check what failed, what is unknown and what passed. What does not apply and how many checks
//! there are is not in it: a new check changes the pages in which it speaks, and no other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use rdma_doctor::report::{Report, text};

/// Those that have a page: each kind of report, area and status is among them.
const SHOWN: [&str; 27] = [
    "cluster-gpus",
    "cluster-healthy",
    "cluster-silent",
    "cluster-two-that-differ",
    "container-without-sysfs",
    "generated-log-healthy",
    "generated-log-warnings",
    "host-without-rdma",
    "modelled-ablation-ib-cures",
    "modelled-bench-slow-node",
    "modelled-efa-over-tcp",
    "modelled-gpu-fabric-faults",
    "modelled-gpu-faults",
    "modelled-gpu-nvml",
    "modelled-gpu-silent",
    "modelled-ground-faults",
    "modelled-ib-errors",
    "modelled-ib-job",
    "modelled-log-of-tools",
    "modelled-pairs-bad",
    "modelled-roce-chain-broken",
    "modelled-roce-lossless",
    "modelled-storage-over-tcp",
    "modelled-topology-misplaced",
    "rxe-healthy",
    "rxe-no-address",
    "rxe-uverbs-denied",
];
/// What a fixture's expectation holds beyond what `--bless` writes by itself.
pub(crate) const ALL_KEYS: &str = "headline = \"\"\nalso_fails = []\n";
/// The columns of a page.
const WIDTH: usize = 100;
/// So many subjects of a verdict are named; more are counted.
const NAMED: usize = 3;

/// What checks say: by word (`fails`, `unknown`, `passes`), then by check, the subjects.
#[derive(Default)]
pub(crate) struct CheckVerdicts(BTreeMap<&'static str, BTreeMap<String, BTreeSet<String>>>);

impl CheckVerdicts {
    pub(crate) fn add(&mut self, word: &'static str, check: &str, subject: &str) {
        let checks = self.0.entry(word).or_default();
        let subjects = checks.entry(check.to_owned()).or_default();
        subjects.insert(subject.to_owned());
    }

    /// The checks that say this word.
    pub(crate) fn checks(&self, word: &str) -> impl Iterator<Item = &str> {
        let checks = self.0.get(word).into_iter().flatten();
        checks.map(|(check, _)| check.as_str())
    }

    fn write(&self, page: &mut String) {
        for word in ["fails", "unknown"] {
            let Some(checks) = self.0.get(word) else {
                continue;
            };
            let _ = writeln!(page, "\n{word}");
            for (check, subjects) in checks {
                let named: Vec<&str> = subjects.iter().map(String::as_str).collect();
                let _ = match named.len() {
                    ..=NAMED => writeln!(page, "  {check}: {}", named.join(", ")),
                    many => writeln!(page, "  {check}: {many} subjects"),
                };
            }
        }
        let mut folders: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for check in self.checks("passes") {
            let (folder, name) = check.split_once('/').unwrap_or(("", check));
            folders.entry(folder).or_default().push(name);
        }
        if !folders.is_empty() {
            page.push_str("\npasses\n");
        }
        for (folder, names) in folders {
            wrap(page, folder, &names);
        }
    }
}

/// Writes a folder's names, broken into lines.
fn wrap(page: &mut String, folder: &str, names: &[&str]) {
    let mut line = format!("  {folder}:");
    for (at, name) in names.iter().enumerate() {
        let comma = if at + 1 < names.len() { "," } else { "" };
        if line.len() + name.len() + comma.len() >= WIDTH {
            let _ = writeln!(page, "{line}");
            line = "     ".to_owned();
        }
        let _ = write!(line, " {name}{comma}");
    }
    let _ = writeln!(page, "{line}");
}

/// A report's page.
pub(crate) fn page(report: &Report, said: &CheckVerdicts) -> String {
    let mut page = Vec::new();
    text::write(&mut page, report, text::Detail::default(), WIDTH).unwrap();
    let page = String::from_utf8(page).unwrap();
    // The last line counts all verdicts, and with them the catalogue.
    let counts = page.trim_end().rfind('\n').unwrap_or(page.len());
    let mut page = page[..counts].to_owned();
    let _ = writeln!(page, "\nexit {}", report.exit);
    said.write(&mut page);
    page
}

/// Says that a report's counts add up: every verdict is of one kind.
pub(crate) fn adds_up(report: &Report) {
    let c = &report.counts;
    let kinds = [
        c.passes,
        c.errors,
        c.warnings,
        c.notes,
        c.waived,
        c.unknown,
        c.does_not_apply,
    ];
    assert_eq!(c.verdicts, kinds.iter().sum::<usize>());
}

/// Holds a fixture's page, if it is to have one, against the one that is checked in.
pub(crate) fn expect(name: &str, page: impl FnOnce() -> String) {
    if !SHOWN.contains(&name) {
        return;
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../fixtures/expected");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, page()));
}

/// Holds the recordings and clusters in `directory` against the `NAME.expect.toml` in `kept`, as a site does. `RDMA_DOCTOR_BLESS=1` writes what they are now;
/// of each there is what a new file begins with.
pub(crate) fn as_expected(directory: &Path, kept: &Path, new: &BTreeMap<String, String>) {
    let file = |at: &Path, name: &str| at.join(format!("{name}.expect.toml"));
    let test = |arguments: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_rdma-doctor"))
            .arg("test")
            .arg(directory)
            .args(arguments)
            .output()
            .unwrap();
        let said = String::from_utf8([out.stdout, out.stderr].concat()).unwrap();
        assert!(out.status.success(), "{said}");
    };
    let is_elsewhere = directory != kept;
    let is_blessed = std::env::var_os("RDMA_DOCTOR_BLESS").is_some();
    for (name, text) in new {
        let at = file(kept, name);
        if is_blessed && !at.exists() {
            std::fs::write(&at, text).unwrap();
        }
        if is_elsewhere && at.exists() {
            std::fs::copy(at, file(directory, name)).unwrap();
        }
    }
    if is_blessed {
        test(&["--bless"]);
        for name in new.keys().filter(|_| is_elsewhere) {
            std::fs::copy(file(directory, name), file(kept, name)).unwrap();
        }
    }
    test(&[]);
}
