//! Texts that people post, with what must be said of them beside each: `evidence_texts/*.md`. A heading of the third level is a case: a block of the
//! text, and a block of TOML that is held against the facts and the report. A case with several texts, each with a path, is a directory.
//!
//! A fact is `HOST: SUBJECT NAME FACT = VALUE`; the host may be left out, and the name of a node.
//!
//! `RDMA_DOCTOR_EVIDENCE=words` runs only the cases whose headings contain these words, or of the file of this name, and prints their reports.
//! `RDMA_DOCTOR_REALDATA=DIR` reads captures of others, too, which the project does not hold.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rdma_doctor::examine::given::Given;
use rdma_doctor::examine::one;
use rdma_doctor::examine::sink::Silent;
use rdma_doctor::fact::{Facts, Id, Subject};
use rdma_doctor::probe::outputs::recorded::Evidence;
use serde::Deserialize;
use serde_json::Value;

use crate::place;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Expected {
    exit: Option<i32>,
    nodes: Option<Vec<String>>,
    causes: Option<Vec<String>>,
    /// Checks that fail, whether they lead, follow or are notes.
    finds: Vec<String>,
    facts: Vec<String>,
    unread: Option<Vec<String>>,
    says: Vec<String>,
    never: Vec<String>,
    crlf: bool,
    /// Known to be wrong: the test says so when it is not any more.
    open: bool,
}

struct Case {
    title: String,
    text: String,
    /// The texts of a directory, by their paths.
    files: Vec<(String, String)>,
    expected: String,
}

fn cases(path: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut cases: Vec<Case> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(title) = line.strip_prefix("### ") {
            cases.push(Case {
                title: title.to_owned(),
                text: String::new(),
                files: Vec::new(),
                expected: String::new(),
            });
        }
        let fence = line.len() - line.trim_start_matches('`').len();
        if fence >= 3 {
            let end = "`".repeat(fence);
            let block = lines.by_ref().take_while(|line| *line != end);
            let block = block.fold(String::new(), |all, line| all + line + "\n");
            let case = cases.last_mut().unwrap();
            match line.trim_start_matches('`') {
                "text" => case.text = block.replace('␛', "\u{1b}"),
                "toml" => case.expected = block,
                kind => match kind.strip_prefix("text ") {
                    Some(file) => case.files.push((file.to_owned(), block)),
                    None => panic!("{}: {kind}", path.display()),
                },
            }
        }
    }
    cases
}

/// The value of a fact that the line names.
fn said(facts: &Facts, line: &str) -> (String, String) {
    let (place, wanted) = line.split_once(" = ").unwrap();
    let (host, place) = match place.split_once(": ") {
        Some((host, place)) => (Some(host), place),
        None => (None, place),
    };
    let words: Vec<&str> = place.split(' ').collect();
    let subject = Subject::from_name(words[0]).unwrap_or_else(|| panic!("{line}: no subject"));
    let (name, fact) = (words[1..words.len() - 1].join(" "), words[words.len() - 1]);
    let name = match subject {
        Subject::GpuPair => name.replace(' ', " - "),
        _ => name,
    };
    let index = subject
        .schema()
        .facts
        .iter()
        .position(|one| one.name == fact);
    let index = index.unwrap_or_else(|| panic!("{line}: no fact"));
    let node_of = |id: Id| {
        facts
            .ancestor(id, Subject::Node)
            .map(|node| facts.name(node).to_owned())
    };
    let fits = |id: &Id| {
        host.is_none_or(|host| node_of(*id).as_deref() == Some(host))
            && (subject == Subject::Node || facts.name(*id) == name)
    };
    let found = facts.all(subject).find(fits);
    let value = found.map(|id| match facts.look(id, index) {
        Some(fact) => match fact.known() {
            Some(value) => value.to_string(),
            None => "unknown".to_owned(),
        },
        None => "not stated".to_owned(),
    });
    let wanted = match wanted {
        "true" => "yes",
        "false" => "no",
        wanted => wanted,
    };
    (
        value.unwrap_or_else(|| "no such instance".to_owned()),
        wanted.to_owned(),
    )
}

/// Runs a check over a file.
fn check(file: &Path, json: bool) -> Output {
    let mut command = Command::new(place::doctor());
    command.arg("check").arg(file);
    if json {
        command.args(["--format", "json"]);
    }
    command.output().unwrap()
}

/// Writes what the case holds: a file, or a directory of files. It is named by its place.
fn lay_out(case: &Case, crlf: bool, scratch: &Path) -> PathBuf {
    if case.files.is_empty() {
        let file = scratch.join("post.txt");
        let text = if crlf {
            case.text.replace('\n', "\r\n")
        } else {
            case.text.clone()
        };
        std::fs::write(&file, text).unwrap();
        return file;
    }
    let folder = scratch.join("post");
    let _ = std::fs::remove_dir_all(&folder);
    for (path, text) in &case.files {
        let file = folder.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    folder
}

#[expect(
    clippy::print_stderr,
    reason = "a page that was asked for by RDMA_DOCTOR_EVIDENCE"
)]
fn differences(case: &Case, scratch: &Path) -> String {
    let expected: Expected =
        toml::from_str(&case.expected).unwrap_or_else(|e| panic!("{}: {e}", case.title));
    let file = &lay_out(case, expected.crlf, scratch);
    let mut wrong = String::new();
    let mut hold = |what: &str, is: String, wanted: String| {
        if is != wanted {
            let _ = writeln!(wrong, "  {what}: {is}, not {wanted}");
        }
    };
    if let Some(unread) = &expected.unread {
        let mut evidence = Evidence::of("post");
        evidence.add_text("post.txt", &std::fs::read_to_string(file).unwrap());
        let named: Vec<&str> = evidence
            .unread()
            .iter()
            .filter_map(|one| one.rsplit(' ').next())
            .collect();
        hold("unread", named.join(" "), unread.join(" "));
    }
    let recordings = Given::of_path(file).recordings(&Silent).unwrap_or_default();
    let (facts, _) = one::facts(&recordings);
    for line in &expected.facts {
        let (is, wanted) = said(&facts, line);
        hold(line, is, wanted);
    }
    if let Some(nodes) = &expected.nodes {
        let names: Vec<&str> = facts.all(Subject::Node).map(|id| facts.name(id)).collect();
        hold("nodes", names.join(" "), nodes.join(" "));
    }
    // A run of the program is the dearest part of a case.
    let is_judged =
        expected.exit.is_some() || expected.causes.is_some() || !expected.finds.is_empty();
    let output = is_judged.then(|| check(file, true));
    if let Some(exit) = expected.exit {
        let code = output.as_ref().and_then(|output| output.status.code());
        hold("exit", format!("{code:?}"), format!("{:?}", Some(exit)));
    }
    let stdout = output.map_or(Vec::new(), |output| output.stdout);
    let report: Value = serde_json::from_slice(&stdout).unwrap_or_default();
    if let Some(causes) = &expected.causes {
        let leads = report["causes"].as_array().cloned().unwrap_or_default();
        let is: BTreeSet<&str> = leads
            .iter()
            .filter_map(|cause| cause["check"].as_str())
            .collect();
        let wanted: BTreeSet<&str> = causes.iter().map(String::as_str).collect();
        hold("causes", format!("{is:?}"), format!("{wanted:?}"));
    }
    let failing = failing_checks(&report);
    for id in &expected.finds {
        hold(
            &format!("finds {id}"),
            failing.contains(&id.as_str()).to_string(),
            "true".into(),
        );
    }
    let is_shown = !expected.says.is_empty() || !expected.never.is_empty();
    let is_asked_for = std::env::var_os("RDMA_DOCTOR_EVIDENCE").is_some();
    let page = (is_shown || is_asked_for).then(|| check(file, false));
    let page = page.map_or(Vec::new(), |page| [page.stdout, page.stderr].concat());
    let page = String::from_utf8_lossy(&page).into_owned();
    for words in &expected.says {
        hold(
            &format!("says {words:?}"),
            page.contains(words).to_string(),
            "true".into(),
        );
    }
    for words in &expected.never {
        hold(
            &format!("says {words:?}"),
            page.contains(words).to_string(),
            "false".into(),
        );
    }
    if is_asked_for {
        eprintln!("{page}");
    }
    wrong
}

/// The checks that fail: causes, what follows from them, and notes.
fn failing_checks(report: &Value) -> Vec<&str> {
    fn listed<'r>(of: &'r Value, part: &str) -> impl Iterator<Item = &'r Value> {
        of[part].as_array().into_iter().flatten()
    }
    let leads = listed(report, "causes").chain(listed(report, "notes"));
    let all = leads.flat_map(|lead| std::iter::once(lead).chain(listed(lead, "consequences")));
    all.filter_map(|one| one["check"].as_str()).collect()
}

#[test]
fn texts_of_tools_give_their_facts_and_causes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/evidence_texts");
    let words = std::env::var("RDMA_DOCTOR_EVIDENCE").unwrap_or_default();
    let scratch = scratch("texts");
    let (mut tried, mut right, mut wrong) = (0, 0, String::new());
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    let is_wanted = |path: &Path, case: &Case| {
        case.title.contains(&words) || path.file_stem().is_some_and(|name| *name == *words)
    };
    let mut chosen = Vec::new();
    for path in &files {
        chosen.extend(cases(path).into_iter().filter(|case| is_wanted(path, case)));
    }
    for case in chosen {
        tried += 1;
        let is_open = case.expected.lines().any(|line| line == "open = true");
        let differences = differences(&case, &scratch);
        right += usize::from(differences.is_empty());
        if is_open && differences.is_empty() {
            let _ = writeln!(wrong, "{}\n  right, although it says open", case.title);
        } else if !is_open && !differences.is_empty() {
            let _ = writeln!(wrong, "{}\n{differences}", case.title);
        }
    }
    eprintln!("{right} of {tried} texts right");
    assert!(
        tried > 0 && wrong.is_empty(),
        "{right} of {tried} right\n{wrong}"
    );
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("evidence-{name}"));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// What the script collects of this machine is read, and whatever it runs on, nothing of it is damage.
#[test]
fn what_the_script_collects_is_read() {
    let script = Command::new(place::doctor())
        .arg("collect-script")
        .output()
        .unwrap();
    let folder = scratch("script");
    let (script_file, collected) = (folder.join("collect.sh"), folder.join("node.txt"));
    std::fs::write(&script_file, script.stdout).unwrap();
    let output = Command::new("sh").arg(&script_file).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    std::fs::write(&collected, &output.stdout).unwrap();
    let mut evidence = Evidence::of("node");
    evidence.add_text("node.txt", &String::from_utf8_lossy(&output.stdout));
    let recordings = evidence.finish();
    let (facts, nodes) = one::facts(&recordings);
    assert_eq!(nodes.len(), 1, "one machine");
    for wanted in [
        "node kernel",
        "node memlock",
        "node uptime",
        "node default_route",
    ] {
        let (is, _) = said(&facts, &format!("{wanted} = x"));
        assert!(
            !["unknown", "not stated", "no such instance"].contains(&&*is),
            "{wanted}: {is}"
        );
    }
    let status = check(&collected, true).status.code();
    assert!(matches!(status, Some(0..=3)), "{status:?}");
}

/// An archive, with the layout of an sosreport, and packed a second time.
#[test]
fn bundles_are_read_by_their_layout() {
    let folder = scratch("bundle");
    let root = folder.join("sosreport-n9");
    for (path, text) in [
        (
            "sos_commands/infiniband/ibstatus",
            "Infiniband device 'mlx5_0' port 1 status:\n\tstate:\t\t 2: INIT\n\tphys state:\t 5: LinkUp\n\tlink_layer:\t InfiniBand\n",
        ),
        (
            "sos_commands/kernel/lsmod",
            "Module                  Size  Used by\nmlx5_ib  450560  0\n",
        ),
        ("proc/sys/kernel/osrelease", "6.1.0-9-amd64\n"),
        ("etc/hostname", "n9\n"),
    ] {
        let file = root.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let archive = folder.join("sosreport-n9.tar.gz");
    let zip = folder.join("sosreport-n9.zip");
    let packed = Command::new("tar")
        .arg("-C")
        .arg(&folder)
        .arg("-czf")
        .arg(&archive)
        .arg("sosreport-n9")
        .status();
    assert!(packed.unwrap().success());
    pack(&folder, "sosreport-n9", &zip);
    let by_xz = pack_tar(&folder, "sosreport-n9", "xztar", "tar.xz");
    let by_bzip2 = pack_tar(&folder, "sosreport-n9", "bztar", "tar.bz2");
    // An archive as an attachment of a ticket, which is packed again.
    let ticket = folder.join("ticket");
    std::fs::create_dir_all(&ticket).unwrap();
    std::fs::copy(&archive, ticket.join("sosreport-n9.tar.gz")).unwrap();
    let nested = folder.join("nested.zip");
    pack(&folder, "ticket", &nested);
    for input in [&root, &archive, &zip, &ticket, &nested, &by_xz, &by_bzip2] {
        let output = check(input, true);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let causes: Vec<&str> = report["causes"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|c| c["check"].as_str())
            .collect();
        assert_eq!(causes, ["ib/not-configured"], "{}", input.display());
        assert_eq!(report["nodes"][0]["kernel"], "6.1.0-9-amd64");
        assert_eq!(output.status.code(), Some(2));
    }
}

/// Packs a folder into a tar archive of this format of Python's.
fn pack_tar(below: &Path, name: &str, format: &str, ending: &str) -> PathBuf {
    let script = "import shutil, sys; shutil.make_archive(*sys.argv[1:5])";
    let base = below.join(format!("{name}-{format}"));
    let packed = Command::new("python3")
        .args(["-c", script])
        .arg(&base)
        .arg(format)
        .arg(below)
        .arg(name)
        .status();
    assert!(packed.unwrap().success());
    PathBuf::from(format!("{}.{ending}", base.display()))
}

/// Packs a folder as zip(1) does.
fn pack(below: &Path, name: &str, zip: &Path) {
    let script = "import shutil, sys; shutil.make_archive(sys.argv[1][:-4], 'zip', sys.argv[2], sys.argv[3])";
    let packed = Command::new("python3")
        .args(["-c", script])
        .args([zip, below])
        .arg(name)
        .status();
    assert!(packed.unwrap().success());
}

/// What azhpc-diagnostics gathers of a machine, whose files have endings and no sos names.
#[test]
fn a_bundle_of_azhpc_diagnostics_is_read_by_its_layout() {
    let folder = scratch("azhpc");
    let root = folder.join("vm1.20240603");
    let smi = "==============NVSMI LOG==============\n\nDriver Version : 550.54.15\nAttached GPUs : 1\nGPU 00000000:1C:00.0\n    \
        Product Name : NVIDIA A100-SXM4-80GB\n    Temperature\n        GPU Current Temp : 45 C\n";
    for (path, text) in [
        (
            "Infiniband/ibstatus.out",
            "Infiniband device 'mlx5_ib0' port 1 status:\n\tstate:\t\t 2: INIT\n\tphys state:\t 5: LinkUp\n\tlink_layer:\t InfiniBand\n",
        ),
        (
            "VM/uname.txt",
            "Linux vm1 5.15.0-1064-azure #73-Ubuntu SMP Tue Apr 30 14:24:24 UTC 2024 x86_64 GNU/Linux\n",
        ),
        (
            "VM/sysctl.txt",
            "kernel.numa_balancing = 1\nvm.max_map_count = 65530\n",
        ),
        (
            "VM/lsmod.txt",
            "Module                  Size  Used by\nmlx5_ib  450560  0\n",
        ),
        (
            "CPU/lscpu.txt",
            "Architecture:            x86_64\nVendor ID:               AuthenticAMD\nHypervisor vendor:       Microsoft\n",
        ),
        ("Memory/zone_reclaim_mode", "1\n"),
        ("Nvidia/nvidia-smi-q.out", smi),
    ] {
        let file = root.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let zip = folder.join("vm1.zip");
    pack(&folder, "vm1.20240603", &zip);
    for input in [&root, &zip] {
        let recordings = Given::of_path(input).recordings(&Silent).unwrap();
        let (facts, nodes) = one::facts(&recordings);
        assert_eq!(nodes.len(), 1, "{}", input.display());
        for line in [
            "vm1: port mlx5_ib0/1 state = init",
            "vm1: node kernel = 5.15.0-1064-azure",
            "vm1: node numa_balancing = 1",
            "vm1: node zone_reclaim_mode = 1",
            "vm1: node cpu_vendor = amd",
            "vm1: node virtual = true",
            "vm1: module mlx5_ib present = true",
            "vm1: gpu 0000:1c:00.0 temperature = 45",
        ] {
            let (is, wanted) = said(&facts, line);
            assert_eq!(is, wanted, "{line}");
        }
    }
}

/// An archive that somebody damaged is refused, or read as far as it goes.
#[test]
fn a_directory_without_a_text_says_what_is_in_it() {
    let dir = scratch("no-text");
    for old in std::fs::read_dir(&dir).unwrap() {
        std::fs::remove_file(old.unwrap().path()).unwrap();
    }
    let says = |words: &str| {
        let out = check(&dir, false);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(65), "{said}");
        assert!(said.contains(words), "{said}");
    };
    says("no text in this directory");
    // What lies over another recording is no machine by itself.
    let fixture = Path::new("fixtures/modelled-gpu-host.jsonl");
    std::fs::copy(fixture, dir.join("n1.jsonl")).unwrap();
    says("modelled-gpu-node.jsonl: No such file");
}

#[test]
fn a_damaged_zip_ends_in_words() {
    let folder = scratch("damaged");
    std::fs::write(
        folder.join("ibstatus.txt"),
        "Infiniband device 'mlx5_0' port 1 status:\n\tstate:\t\t 2: INIT\n".repeat(40),
    )
    .unwrap();
    let zip = folder.join("whole.zip");
    pack(&folder, "ibstatus.txt", &zip);
    let whole = std::fs::read(&zip).unwrap();
    let file = folder.join("damaged.zip");
    for cut in 0..whole.len() {
        std::fs::write(&file, &whole[..cut]).unwrap();
        let _ = Given::of_path(&file).recordings(&Silent);
        let mut flipped = whole.clone();
        flipped[cut] ^= 0xff;
        std::fs::write(&file, flipped).unwrap();
        let _ = Given::of_path(&file).recordings(&Silent);
    }
}

/// A file, the exit statuses that fit, findings that must be there, and beginnings of causes that must not.
type Capture = (
    &'static str,
    &'static [i32],
    &'static [&'static str],
    &'static [&'static str],
);

/// Captures of others with the truths of their README.
const REAL: &[Capture] = &[
    (
        "ibstat/ibstat.47.0.h100.all.active.0",
        &[0, 1, 3],
        &[],
        &["link/", "log/pasted", "ib/"],
    ),
    (
        "ibstat/ibstat.47.0.h100.some.down.0",
        &[0, 1, 3],
        &[],
        &["ib/"],
    ),
    (
        "ibstat/ibstat.47.0.h100.some.down.with.polling.1",
        &[1, 2, 3],
        &["link/port-down-among-equals"],
        &[],
    ),
    (
        "ibstat/ibstatus.39.0.a100.all.active.0",
        &[0, 1, 3],
        &[],
        &["link/", "log/pasted", "ib/"],
    ),
    ("ibstat/show_gids.txt", &[0, 1, 3], &[], &["link/", "roce/"]),
    ("nvidia-smi/qx-b200.xml.gz", &[0, 1, 3], &[], &["gpu/"]),
    ("nvidia-smi/qx-a100.xml.gz", &[0, 1, 3], &[], &["gpu/"]),
    ("nvidia-smi/qx-l40s.xml.gz", &[0, 1, 3], &[], &["gpu/"]),
    (
        "nvidia-smi/h100-power-brake.txt",
        &[2],
        &["gpu/power-brake"],
        &[],
    ),
    (
        "topology/topo-m-bm.gpu.h100.8.txt",
        &[0, 1, 3],
        &[],
        &["topology/", "gpu/"],
    ),
    (
        "topology/nccl-topo-h100-oci.xml",
        &[0, 1, 3],
        &[],
        &["topology/", "gpu/"],
    ),
    (
        "fabric/perfquery-clean-switch.txt",
        &[0, 1, 3],
        &[],
        &["link/", "ib/"],
    ),
    (
        "firewall/ip6tables_save.iptables-save",
        &[0, 1, 3],
        &[],
        &["firewall/"],
    ),
    (
        "lspci-dmesg/h100-boot-dmesg.txt",
        &[1, 2, 3],
        &["kernel/slot-power"],
        &[],
    ),
    (
        "lspci-dmesg/mlx5-gid-add-failure.txt",
        &[1, 2, 3],
        &["kernel/gid-add-failed"],
        &[],
    ),
];

#[test]
fn captures_of_others_are_judged_by_their_truths() {
    let Some(folder) = std::env::var_os("RDMA_DOCTOR_REALDATA").map(PathBuf::from) else {
        eprintln!("not asked: RDMA_DOCTOR_REALDATA names no folder");
        return;
    };
    let (mut right, mut wrong) = (0, String::new());
    for (file, statuses, leads, never) in REAL {
        let output = check(&folder.join(file), true);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let listed = |part: &str| -> Vec<String> {
            let list = report[part].as_array().cloned().unwrap_or_default();
            let ids = list.iter().filter_map(|c| c["check"].as_str());
            ids.map(str::to_owned).collect()
        };
        let (causes, notes) = (listed("causes"), listed("notes"));
        let all = [causes.as_slice(), notes.as_slice()].concat();
        let status = output.status.code().unwrap_or(-1);
        let has = leads.iter().all(|lead| all.iter().any(|one| one == lead));
        let hasnt = never
            .iter()
            .all(|bad| !causes.iter().any(|one| one.starts_with(bad)));
        match statuses.contains(&status) && has && hasnt {
            true => right += 1,
            false => {
                let _ = writeln!(
                    wrong,
                    "{file}: status {status}, {all:?} {}",
                    String::from_utf8_lossy(&output.stderr)
                );
            }
        }
    }
    eprintln!("{right} of {} captures right\n{wrong}", REAL.len());
    assert!(wrong.is_empty(), "{right} of {}\n{wrong}", REAL.len());
}
