//! The binary as its user meets it: every exit status, closed pipes, hostile input, what it leaves behind.

use crate::place::Scratch;
use crate::process::run_doctor as doctor;
use crate::process::wait_until;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

fn code(args: &[&str]) -> i32 {
    doctor(args).status.code().unwrap()
}

fn fixture(name: &str) -> String {
    format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn file(name: &str, content: &[u8]) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).unwrap();
    path.to_string_lossy().into_owned()
}

const HEAD: &str = "{\"rdma-doctor-recording\":\"1.0\",\"node\":\"n1\"}\n";

/// The recordings in a directory are judged; a fault in a text beside them is not left out.
#[test]
fn a_directory_of_recordings_is_those_recordings() {
    let scratch = Scratch::new("recordings");
    for name in ["rxe-healthy.jsonl.zst", "vm-without-rdma.jsonl.zst"] {
        std::fs::copy(fixture(name), scratch.join(name)).unwrap();
    }
    std::fs::write(scratch.join("rxe-healthy.expect.toml"), "").unwrap();
    let path = scratch.to_str().unwrap();
    let both = doctor(&["check", "--json", path]);
    let report: serde_json::Value = serde_json::from_slice(&both.stdout).unwrap();
    assert_eq!(report["nodes"].as_array().unwrap().len(), 2, "{report}");
    assert!(both.stderr.is_empty());
    let each = doctor(&["check", "--each", "-q", path]);
    assert_eq!(String::from_utf8(each.stdout).unwrap().lines().count(), 2);
    let fault = "$ dmesg\n[ 12.1] NVRM: Xid (PCI:0000:19:00): 79, GPU has fallen off the bus.\n";
    std::fs::write(scratch.join("dmesg.txt"), fault).unwrap();
    let mixed = doctor(&["check", path]);
    assert_eq!(mixed.status.code(), Some(2));
    let said = String::from_utf8(mixed.stderr).unwrap();
    assert!(said.contains("2 recordings beside them"), "{said}");
}

#[test]
fn an_output_into_a_directory_that_is_not_there_is_usage() {
    let healthy = fixture("rxe-healthy.jsonl.zst");
    let log = fixture("generated-log-healthy.jsonl");
    for into in ["/no/such/directory/out", env!("CARGO_TARGET_TMPDIR")] {
        for before in [
            &["check", &healthy, "-o"][..],
            &["check", &healthy, "--format", "json", "--output"],
            &["check", &healthy, "--fix-script"],
            &["triage", &healthy, "-o"],
            &["log", &log, "-o"],
            &["log", &log, "--record"],
            &["record", "--from", &healthy, "-o"],
            &["test", &healthy, "-o"],
            &["bench", "all-reduce", "--record"],
            &["bench", "pairs", "--record"],
            &["bench", "p2p", "--record"],
            &["ablate", "--record"],
        ] {
            let ran = doctor(&[before, &[into]].concat());
            let said = String::from_utf8_lossy(&ran.stderr).into_owned();
            assert_eq!(ran.status.code(), Some(64), "{before:?} {into}: {said}");
            assert!(said.contains("directory"), "{before:?}: {said}");
        }
    }
}

#[test]
fn a_folder_of_checks_is_suggested_as_a_pattern() {
    let waivers = file(
        "folder.waivers.toml",
        b"[[waiver]]\ncheck = \"link\"\nreason = \"r\"\nowner = \"o\"\nuntil = 2099-01-01\n",
    );
    let healthy = fixture("rxe-healthy.jsonl.zst");
    for (args, near) in [
        (["--only", "link"], "`link/*`"),
        (["--skip", "link/"], "`link/*`"),
        (["--only", "lnik"], "`link/*`"),
        (["--only", "link/rate-degradd"], "`link/rate-degraded`"),
        (["--waivers", &waivers], "`link/*`"),
    ] {
        let ran = doctor(&["check", &healthy, args[0], args[1]]);
        let said = [ran.stdout, ran.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            said.contains(&format!("the nearest is {near}")),
            "{args:?}: {said}"
        );
        assert_ne!(ran.status.code(), Some(0), "{args:?}");
    }
}

#[test]
fn every_exit_status_has_a_case() {
    assert_eq!(code(&["check", &fixture("rxe-healthy.jsonl.zst")]), 0);
    assert_eq!(code(&["check", &fixture("rxe-mtu-lowered.jsonl")]), 1);
    assert_eq!(code(&["check", &fixture("rxe-no-address.jsonl")]), 2);
    assert_eq!(code(&["check", &fixture("vm-without-rdma.jsonl.zst")]), 3);
    assert_eq!(code(&["check", "--no-such-flag"]), 64);
    assert_eq!(code(&["explain", "no/such-check"]), 64);
    assert_eq!(code(&["check", "--only", "nothing/*"]), 64);
    assert_eq!(code(&["check", "/no/such/file"]), 65);
    // A full device: the report was drawn up and could not be written.
    let full = Command::new(env!("CARGO_BIN_EXE_rdma-doctor"))
        .args(["check", &fixture("rxe-healthy.jsonl.zst")])
        .stdout(
            std::fs::OpenOptions::new()
                .write(true)
                .open("/dev/full")
                .unwrap(),
        )
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(full.code(), Some(70));
    assert_eq!(
        code(&[
            "check",
            "--fail-on",
            "warning",
            &fixture("rxe-mtu-lowered.jsonl")
        ]),
        2
    );
    let open = fixture("rxe-no-libibverbs.jsonl.zst");
    let one_open = [
        "check",
        "--only",
        "link/port-down",
        "--only",
        "device/provider-missing",
        &open,
    ];
    assert_eq!(code(&one_open), 3, "a check that was chosen is open");
    let chosen = |only: &[&str]| {
        let args = [&["check", "--format", "json"], only, &[&open]].concat();
        report(&args)["counts"]["checks"].clone()
    };
    let both = ["--only", "link/port-down,device/provider-missing"];
    assert_eq!(
        (chosen(&both), chosen(&one_open[1..5])),
        (2.into(), 2.into())
    );
    let strict = ["check", "--strict", &fixture("rxe-healthy.jsonl.zst")];
    assert_eq!(code(&strict), 3);
    let none = ["check", "--require", "none"];
    let bare = fixture("vm-without-rdma.jsonl.zst");
    assert_eq!(code(&[&none[..], &[&bare]].concat()), 0);
    assert_eq!(code(&["--version"]), 0);
    assert_eq!(code(&["--help"]), 0);
}

#[test]
fn hostile_recordings_are_refused_with_a_reason_and_status_65() {
    let deep = format!(
        "{HEAD}{{\"probe\":\"p\",\"q\":{{\"call\":\"f\"}},\"value\":{}}}\n",
        "[".repeat(100_000)
    );
    let twice = format!(
        "{HEAD}{{\"probe\":\"p\",\"q\":{{\"read\":\"/a\"}},\"text\":\"a\",\"text\":\"b\"}}\n"
    );
    for (name, content, why) in [
        ("empty.jsonl", Vec::new(), "empty"),
        (
            "binary.jsonl",
            b"\x7fELF\x02\x01\x01\0\0\n".to_vec(),
            "not a recording",
        ),
        (
            "version.jsonl",
            b"{\"rdma-doctor-recording\":\"2.0\"}\n".to_vec(),
            "2.0",
        ),
        ("deep.jsonl", deep.into_bytes(), "line 2"),
        ("twice.jsonl", twice.into_bytes(), "duplicate"),
        (
            "utf8.jsonl",
            [HEAD.as_bytes(), b"{\"probe\":\"\xff\"}\n"].concat(),
            "UTF-8",
        ),
        (
            "zst.jsonl.zst",
            vec![0x28, 0xb5, 0x2f, 0xfd, 0xff, 0xff, 0xff],
            "zst.jsonl.zst",
        ),
        (
            "escape.jsonl",
            b"{\"rdma-doctor-recording\":\"1.0\",\"base\":\"../../etc/passwd\"}\n".to_vec(),
            "base",
        ),
    ] {
        let out = doctor(&["check", &file(name, &content)]);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(65), "{name}: {said}");
        assert!(said.contains(why), "{name}: {said}");
        assert!(
            said.lines().count() <= 2 && said.len() < 600,
            "{name}: short: {said}"
        );
    }
}

#[test]
fn a_gigabyte_in_one_line_takes_little_memory() {
    // A sparse file: a line of one GiB of NULs after a good header.
    let path = file("gigabyte.jsonl", HEAD.as_bytes());
    let f = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    f.set_len(1 << 30).unwrap();
    let out = Command::new("sh")
        .args(["-c", "ulimit -v 400000; exec \"$0\" check \"$1\""])
        .args([env!("CARGO_BIN_EXE_rdma-doctor"), &path])
        .output()
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(
        out.status.code(),
        Some(65),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    assert!(String::from_utf8_lossy(&out.stderr).contains("longer than 16 MiB"));
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let out = Command::new("bash")
        .args(["-c", "\"$0\" explain | head -1; exit ${PIPESTATUS[0]}"])
        .arg(env!("CARGO_BIN_EXE_rdma-doctor"))
        .output()
        .unwrap();
    assert_eq!(
        out.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    assert!(out.stderr.is_empty());
}

/// Looks at one machine before the verdicts of two of them have to be the same.
const LOOKS: usize = 5;

#[test]
fn a_recording_of_this_machine_gives_the_verdict_again() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("this-machine.jsonl.zst");
    let path = path.to_str().unwrap();
    for redaction in [&[][..], &["--no-redact"]] {
        // What others do here meanwhile, as filling /dev/shm, may stand in one of the two looks.
        let looks = || {
            let out = doctor(&[&["record", "-o", path][..], redaction].concat());
            assert!(
                out.status.success(),
                "{}",
                String::from_utf8_lossy(&out.stderr)
            );
            let live = report(&["check", "--format", "json"]);
            (live, report(&["check", "--format", "json", path]))
        };
        let mut last = None;
        let is_same = (0..LOOKS).any(|_| {
            let (live, replay) = looks();
            let is_same = verdict(&live) == verdict(&replay);
            last = Some((live, replay));
            is_same
        });
        let (live, replay) = last.unwrap();
        let findings = |of: &serde_json::Value| format!("{:#}{:#}", of["causes"], of["notes"]);
        assert!(
            is_same,
            "live {}\n{}\nreplayed {}\n{}",
            verdict(&live),
            findings(&live),
            verdict(&replay),
            findings(&replay)
        );
    }
}

/// Of a report what does not move between two looks at one machine, as its uptime and free memory
/// do.
fn verdict(report: &serde_json::Value) -> String {
    let number = |part: &str| report[part].as_array().unwrap().len();
    format!(
        "{} {} {} causes {} notes {}",
        report["status"],
        report["exit"],
        report["counts"],
        number("causes"),
        number("notes")
    )
}

fn report(args: &[&str]) -> serde_json::Value {
    serde_json::from_slice(&doctor(args).stdout).unwrap()
}

#[test]
fn a_truncated_recording_says_so() {
    let whole = doctor(&["record", "--no-redact"]).stdout;
    let cut = file("cut.jsonl", &whole[..whole.len() * 2 / 3]);
    let json = report(&["check", "--format", "json", &cut]);
    assert_eq!(json["nodes"][0]["truncated"], true);
    assert!(String::from_utf8_lossy(&doctor(&["check", &cut]).stdout).contains("cut short"));
}

#[test]
fn several_recordings_are_one_cluster_and_each_alone_with_each() {
    let (a, b) = (
        fixture("rxe-healthy.jsonl.zst"),
        fixture("rxe-no-address.jsonl"),
    );
    let together = report(&["check", "--format", "json", &a, &b]);
    assert_eq!(together["nodes"].as_array().unwrap().len(), 2);
    assert_eq!(together["exit"], 2);
    let each = report(&["check", "--each", "--format", "json", &a, &b]);
    assert_eq!(each[0]["exit"], 0);
    assert_eq!(each[1]["exit"], 2);
}

#[test]
fn a_sites_own_check_is_judged_and_a_wrong_one_refused_with_its_place() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("site-checks/site");
    std::fs::create_dir_all(&dir).unwrap();
    let good = r#"
title = "A device runs other firmware than the site's"
severity = "warning"
subject = "device"
fails = 'device.firmware != "28.39.1002"'
finding = "{device} runs {device.firmware}"
why = "The site has tested one firmware and supports that one only."
fix = "1. (operator) Update the firmware."
see = ["https://docs.kernel.org/infiniband/sysfs.html"]
"#;
    std::fs::write(dir.join("firmware.toml"), good).unwrap();
    let parent = dir.parent().unwrap().to_str().unwrap();
    let json = report(&[
        "check",
        "--format",
        "json",
        "--checks",
        parent,
        "--only",
        "site/*",
        &fixture("rxe-healthy.jsonl.zst"),
    ]);
    assert_eq!(json["counts"]["checks"], 1);
    std::fs::write(
        dir.join("firmware.toml"),
        good.replace("device.firmware !=", "device.firmwar !="),
    )
    .unwrap();
    let out = doctor(&[
        "check",
        "--checks",
        parent,
        &fixture("rxe-healthy.jsonl.zst"),
    ]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(65));
    assert!(
        said.contains("firmware.toml") && said.contains(":5:") && said.contains("device.firmware"),
        "{said}"
    );
    std::fs::remove_dir_all(dir.parent().unwrap()).unwrap();
}

#[test]
fn quiet_is_one_line_and_no_output_has_colour_in_a_pipe() {
    let out = doctor(&["check", "-q", &fixture("rxe-no-address.jsonl")]).stdout;
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(!text.contains('\u{1b}'));
    let colour = doctor(&[
        "check",
        "-q",
        "--color",
        "always",
        &fixture("rxe-no-address.jsonl"),
    ])
    .stdout;
    assert!(String::from_utf8(colour).unwrap().contains('\u{1b}'));
}

#[test]
fn monitors_and_schedulers_get_their_line_and_their_status() {
    let bad = fixture("rxe-no-address.jsonl");
    let said = |format: &str| {
        let out = doctor(&["check", "--format", format, &bad]);
        (out.status.code(), String::from_utf8(out.stdout).unwrap())
    };
    let (status, line) = said("nagios");
    assert_eq!(status, Some(2));
    assert!(line.starts_with("RDMA CRITICAL - "), "{line}");
    assert!(
        line.lines().next().unwrap().contains(" | errors="),
        "{line}"
    );
    let (status, line) = said("slurm");
    assert_eq!((status, line.lines().count()), (Some(2), 1));
    assert!(line.starts_with("rdma-doctor: roce/"), "{line}");
    // node-problem-detector: 1 is a problem, 2 unknown.
    let (status, line) = said("npd");
    assert_eq!((status, line.lines().count()), (Some(1), 1));
    assert!(line.trim_end().chars().count() <= 80, "{line}");
    assert_eq!(
        code(&[
            "check",
            "--format",
            "npd",
            &fixture("rxe-healthy.jsonl.zst")
        ]),
        0
    );
    let undecided = fixture("vm-without-rdma.jsonl.zst");
    assert_eq!(code(&["check", "--format", "npd", &undecided]), 2);
    // Damage is a problem of the node, as it is to the prolog.
    let cut = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("npd-cut.jsonl");
    let text = std::fs::read_to_string(fixture("rxe-mtu-lowered.jsonl")).unwrap();
    let kept: Vec<&str> = text.lines().take(text.lines().count() / 2).collect();
    std::fs::write(&cut, kept.join("\n")).unwrap();
    assert_eq!(
        code(&["check", "--format", "npd", &cut.to_string_lossy()]),
        1
    );
    // A file is replaced as a whole, and nothing else is left beside it.
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("textfile");
    std::fs::create_dir_all(&dir).unwrap();
    let prom = dir.join("rdma.prom");
    std::fs::write(&prom, "old").unwrap();
    let to = prom.to_string_lossy().into_owned();
    let out = doctor(&["check", "--format", "prometheus", "--output", &to, &bad]);
    assert_eq!((out.status.code(), out.stdout.len()), (Some(2), 0));
    let metrics = std::fs::read_to_string(&prom).unwrap();
    assert!(metrics.contains("\nrdma_doctor_status 2\n"), "{metrics}");
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
    assert_eq!(
        code(&["check", "--each", "--format", "prometheus", &bad]),
        64
    );
    assert_eq!(code(&["check", "--output", "/no/such/dir/x", &bad]), 64);
}

#[test]
fn a_tree_with_a_pipe_and_a_loop_in_it_does_not_hang() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("odd-tree");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(dir.join("sys/class/infiniband/mlx5_0/ports/1")).unwrap();
    let made = Command::new("mkfifo")
        .arg(dir.join("sys/class/infiniband/mlx5_0/ports/1/state"))
        .status()
        .unwrap();
    assert!(made.success());
    std::os::unix::fs::symlink("loop", dir.join("sys/class/infiniband/loop")).unwrap();
    let out = doctor(&["check", "--format", "json", "--root", dir.to_str().unwrap()]);
    assert_eq!(
        out.status.code(),
        Some(3),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    assert!(!String::from_utf8_lossy(&out.stdout).contains("killed after"));
    std::fs::remove_dir_all(&dir).unwrap();
}

/// The writer of a log is silent, or there never is one: what was read is judged, and the rest is unknown.
#[test]
fn a_log_that_never_ends_is_read_until_the_deadline() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("endless-log");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let (fifo, whole) = (dir.join("fifo"), dir.join("whole.log"));
    let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let mut text = String::new();
    for (host, rank, other) in [("n1", 0, 1), ("n2", 1, 0)] {
        text += &format!(
            "{host}:7:7 [0] NCCL INFO comm 0x{rank}1 rank {rank} nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0\n"
        );
        text += &format!(
            "{host}:7:7 [0] NCCL INFO Channel 00/0 : {rank}[0] -> {other}[0] [send] via NET/IB/0\n"
        );
    }
    std::fs::write(&whole, &text).unwrap();
    let judged = |args: &[&str], stdin: Stdio| {
        let mut doctor = Command::new(env!("CARGO_BIN_EXE_rdma-doctor"));
        let out = doctor.arg("log").args(args).stdin(stdin).output().unwrap();
        let said = String::from_utf8(out.stdout).unwrap();
        (out.status.code().unwrap(), said)
    };
    let whole = whole.to_str().unwrap();
    let (status, said) = judged(&[whole], Stdio::null());
    assert!(status < 2 && said.contains("RDMA: used"), "{said}");
    // Nobody writes.
    let (status, said) = judged(
        &["--deadline", "0.2", fifo.to_str().unwrap()],
        Stdio::null(),
    );
    assert_eq!(status, 3, "{said}");
    assert!(said.contains("the deadline was reached"), "{said}");
    // One that wrote all this, and keeps the stream open.
    let fifo = fifo.to_str().unwrap();
    let open = || std::fs::File::options().read(true).write(true).open(fifo);
    let mut writer = open().unwrap();
    for args in [["--deadline", "1", fifo], ["--deadline", "1", "-"]] {
        writer.write_all(text.as_bytes()).unwrap();
        let stdin = open().unwrap();
        let (status, said) = judged(&args, stdin.into());
        assert_eq!(status, 3, "{said}");
        assert!(said.contains("the deadline was reached"), "{said}");
        assert!(said.contains("2 nodes"), "{said}");
    }
    // A failure that was read is one.
    let failure = "n1:7:7 [0] net_ib.cc:1 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<4791> with status=12 opcode=0 len=0 vendor err 129\n";
    writer.write_all((text + failure).as_bytes()).unwrap();
    let (_, said) = judged(&["--deadline", "1", fifo], Stdio::null());
    assert!(said.contains("10.0.0.2<4791>"), "{said}");
    // A deadline that is far off costs nothing.
    let (status, _) = judged(&["--deadline", "600", whole], Stdio::null());
    assert!(status < 2);
}

#[test]
fn facts_of_two_recordings_are_compared() {
    let (healthy, down) = (
        fixture("rxe-healthy.jsonl.zst"),
        fixture("rxe-mtu-lowered.jsonl"),
    );
    let same = doctor(&["facts", "--diff", &healthy, &healthy]);
    assert_eq!(same.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&same.stdout).contains("no fact differs"));
    let output = doctor(&["facts", "--json", "--diff", &healthy, &down]);
    assert_eq!(output.status.code(), Some(1));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |d: &&serde_json::Value| d["subject"] == "netdev" && d["fact"] == "mtu";
    let findings = found["findings"].as_array().unwrap();
    let is_new = |line: &serde_json::Value| line.as_str().unwrap().starts_with("+ warning ");
    assert!(findings.iter().any(is_new), "{findings:?}");
    let mtu = found["facts"].as_array().unwrap().iter().find(of);
    let mtu = mtu.expect("the MTU of the netdev differs");
    assert_eq!(mtu["there"]["value"], 1500);
    assert_eq!(mtu["here"]["value"], 1000);
    assert_eq!(
        doctor(&["facts", "--diff", "/nonexistent", &down])
            .status
            .code(),
        Some(65)
    );
}

#[test]
fn facts_list_schema_and_values_are_printed() {
    let list = String::from_utf8(doctor(&["facts", "--list"]).stdout).unwrap();
    assert!(list.contains("port.state") && list.contains("Logical state"));
    let schema: serde_json::Value =
        serde_json::from_slice(&doctor(&["facts", "--schema"]).stdout).unwrap();
    assert_eq!(schema["type"], "array");
    let facts = report(&["facts", "--json", &fixture("rxe-healthy.jsonl.zst")]);
    let port = facts
        .as_array()
        .unwrap()
        .iter()
        .find(|i| i["subject"] == "port")
        .unwrap();
    assert_eq!(port["facts"]["state"]["value"], "active");
    let _ = std::io::stdout().flush();
}

#[test]
fn nccl_env_says_what_nccl_reads_and_what_it_will_use() {
    let text = |args: &[&str]| {
        let output = doctor(args);
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stdout).unwrap()
    };
    insta::assert_snapshot!(
        "nccl_env_files",
        text(&["nccl-env", &fixture("modelled-roce-nccl-files.jsonl")])
    );
    insta::assert_snapshot!(
        "nccl_env_leftovers",
        text(&["nccl-env", &fixture("modelled-roce-nccl-leftovers.jsonl")])
    );
    let json = text(&[
        "nccl-env",
        "--format",
        "json",
        &fixture("modelled-roce-nccl.jsonl"),
    ]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["nccl"]["nccl_version"], "2.27.5");
    assert_eq!(
        json["selection"]["hcas"],
        serde_json::json!(["mlx5_0:1", "mlx5_1:1"])
    );
    assert_eq!(json["variables"]["NCCL_IB_HCA"]["value"], "=mlx5_0,mlx5_1");
    assert_eq!(json["variables_complete"], true);
    // What a recording does not say is unknown, not unset.
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("says-nothing.jsonl");
    let lines = r#"{"rdma-doctor-recording":"1.0","node":"n"}
{"complete":true,"lines":0}
"#;
    std::fs::write(&path, lines).unwrap();
    let old = text(&["nccl-env", &path.to_string_lossy()]);
    assert!(old.contains("others may be set"), "{old}");
    assert!(!old.contains("none is set"), "{old}");
}

/// A process with little memory to lock, ended with the test.
struct Job(std::process::Child);

impl Job {
    fn start() -> Self {
        let child = Command::new("sh")
            .args(["-c", "ulimit -l 64 && exec sleep 60"])
            .env("NCCL_DEBUG", "WARN")
            .env("SECRET_TOKEN", "hunter2")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let job = Job(child);
        // Until the shell has become what it is to be.
        wait_until("the shell has become the job", || {
            let comm = std::fs::read_to_string(format!("/proc/{}/comm", job.0.id()));
            comm.is_ok_and(|comm| comm.trim() == "sleep")
        });
        job
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn facts_of_job(args: &[&str]) -> serde_json::Value {
    let output = doctor(&[&["facts", "--json"], args].concat());
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = all.as_array().unwrap();
    let job = all.iter().find(|instance| instance["subject"] == "job");
    job.map_or(serde_json::Value::Null, |job| job["facts"].clone())
}

#[test]
fn a_jobs_process_is_judged_by_its_own_limits() {
    let job = Job::start();
    let facts = facts_of_job(&["--as", &job.pid()]);
    assert_eq!(facts["memlock"]["value"], 64 << 10);
    assert_eq!(facts["ranks"]["value"], 1);
    // A recording says the same without the process, and nothing that was not asked for.
    let path = file("job.jsonl", b"");
    assert_eq!(
        code(&["record", "--no-redact", "--as", &job.pid(), "-o", &path]),
        0
    );
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("NCCL_DEBUG") && !text.contains("hunter2"));
    let pid = job.pid();
    drop(job);
    assert_eq!(facts_of_job(&[&path])["memlock"]["value"], 64 << 10);
    assert_eq!(code(&["check", "--as", &pid]), 65, "it has ended");
    assert_eq!(code(&["check", "--as", "0"]), 64);
    assert_eq!(code(&["check", "--as", &pid, &path]), 64);
    for command in ["facts", "topo", "nccl-env"] {
        assert_eq!(
            code(&[command, "--as", &pid, &path]),
            64,
            "{command}: a recording has its process"
        );
        let other_version = if command == "nccl-env" { 0 } else { 64 };
        let asked = code(&[command, "--nccl", "2.27.5", &path]);
        assert_eq!(asked, other_version, "{command}");
    }
    assert_eq!(facts_of_job(&[]), serde_json::Value::Null, "none is named");
}
