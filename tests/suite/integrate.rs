//! What `integrate` prints is run, or read by what will read it: the prolog with a stand-in for Slurm, units by systemd, JSON and YAML by their
//! parsers and by the schemas of their consumers, command lines by the doctor itself. (tests/suite/engines.rs has the prolog in a real Slurm.)
//!
//! Where systemd-analyze or Python's YAML is missing (`tests/install-deps test` installs it) that part is skipped and says so; in CI, where
//! `RDMA_DOCTOR_NETNS=require`, it is a failure.

mod grafana;
mod helm;

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use clap::Parser as _;
use rdma_doctor::cli::Cli;
use serde_json::Value;

use crate::formats::{python, skipped};
use crate::place::{Scratch, doctor};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn integrate(args: &[&str]) -> Output {
    Command::new(doctor())
        .arg("integrate")
        .args(args)
        .output()
        .unwrap()
}

/// The files of a configuration, written below a directory.
fn written(what: &str, further: &[&str]) -> Scratch {
    let dir = Scratch::new(what);
    let into = dir.display().to_string();
    let out = integrate(&[&[what, "--into", &into], further].concat());
    assert!(out.status.success(), "{}", text(&out.stderr));
    for line in text(&out.stdout).lines() {
        let file = std::fs::read_to_string(line).unwrap();
        for part in file.split('@').skip(1) {
            let is_mark = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_uppercase());
            assert!(!is_mark, "{line} has @{part}@");
        }
    }
    dir
}

/// Whether what is needed is there; says what is not.
fn have(what: &str, try_it: &[&str]) -> bool {
    let out = Command::new(try_it[0])
        .args(&try_it[1..])
        .stdin(Stdio::null())
        .output();
    let is_there = out.is_ok_and(|out| out.status.success());
    if !is_there {
        assert_ne!(
            std::env::var("RDMA_DOCTOR_NETNS").as_deref(),
            Ok("require"),
            "{what} is required"
        );
        let _ = writeln!(std::io::stdout().lock(), "skipped: no {what}");
    }
    is_there
}

fn program(path: &Path, script: &str) {
    std::fs::write(path, format!("#!/bin/bash\n{script}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn what_is_printed_is_what_is_written() {
    for what in [
        "slurm",
        "npd",
        "nagios",
        "prometheus",
        "grafana",
        "k8s",
        "helm",
        "systemd",
        "github",
        "gitlab",
    ] {
        let printed = text(&integrate(&[what]).stdout);
        let dir = Scratch::new("all");
        let into = dir.display().to_string();
        let names = text(&integrate(&[what, "--into", &into]).stdout);
        for name in names.lines() {
            let file = std::fs::read_to_string(name).unwrap();
            let body = file.strip_prefix("#!/bin/bash\n").unwrap_or(&file);
            assert!(printed.contains(body), "{what}: {name}");
            let place = name.strip_prefix(&into).unwrap();
            assert!(
                names.lines().count() == 1 || printed.contains(&format!("# {place}\n")),
                "{what}: {place}"
            );
        }
    }
    for bad in [
        ["--doctor", "rdma-doctor"],
        ["--doctor", "/opt/my doctor"],
        ["--image", "a'b"],
        ["--metrics", "x"],
    ] {
        assert_eq!(
            integrate(&[&["slurm"], bad.as_slice()].concat())
                .status
                .code(),
            Some(64),
            "{bad:?}"
        );
    }
}

#[test]
fn the_prolog_drains_for_errors_and_damage_and_for_what_a_site_adds() {
    let dir = Scratch::new("stand-ins");
    let doctor = dir.join("doctor");
    program(
        &doctor,
        &format!(
            "echo \"$*\" >>{0}/asked; cat {0}/says; exit $(<{0}/status)",
            dir.display()
        ),
    );
    program(
        &dir.join("scontrol"),
        &format!("printf '%s\\n' \"$@\" >>{}/drained", dir.display()),
    );
    program(&dir.join("sinfo"), &format!("cat {}/state", dir.display()));
    program(
        &dir.join("logger"),
        &format!("echo \"$*\" >>{}/logged", dir.display()),
    );
    let made = written("slurm", &["--doctor", &doctor.display().to_string()]);
    let prolog = made.join("etc/slurm/rdma-doctor.sh");
    assert!(
        Command::new("bash")
            .arg("-n")
            .arg(&prolog)
            .status()
            .unwrap()
            .success()
    );
    const FINDING: &str = "rdma-doctor: link/rate-degraded: mlx5_0/1 trained at 100 Gb/s";
    let said = |says: &str, status: u8, state: &str, vars: &[(&str, &str)]| {
        let _ = std::fs::remove_file(dir.join("drained"));
        let _ = std::fs::remove_file(dir.join("logged"));
        std::fs::write(dir.join("says"), format!("{says}\n")).unwrap();
        std::fs::write(dir.join("status"), status.to_string()).unwrap();
        std::fs::write(dir.join("state"), state).unwrap();
        let mut command = Command::new(&prolog);
        command
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", dir.display()))
            .env("SLURMD_NODENAME", "n7")
            .envs(vars.iter().copied());
        let ended = command.status().unwrap().code();
        let drained = std::fs::read_to_string(dir.join("drained")).unwrap_or_default();
        (ended, drained)
    };
    let run = |status: u8, state: &str, job: Option<&str>| {
        let job: Vec<_> = job.iter().map(|id| ("SLURM_JOB_ID", *id)).collect();
        said(FINDING, status, state, &job)
    };
    let logged = || std::fs::read_to_string(dir.join("logged")).unwrap_or_default();
    let drained = "update\nNodeName=n7\nState=DRAIN\nReason=rdma-doctor: link/rate-degraded: mlx5_0/1 trained at 100 Gb/s\n";
    assert_eq!(
        run(2, "allocated\n", Some("77")),
        (Some(1), drained.to_owned())
    );
    assert_eq!(run(2, "idle\n", None), (Some(0), drained.to_owned()));
    assert_eq!(
        run(2, "drained\n", None),
        (Some(0), String::new()),
        "whose reason is another's"
    );
    for status in [0, 1, 3, 64, 65, 70, 124, 139] {
        assert_eq!(
            run(status, "allocated\n", Some("77")),
            (Some(0), String::new()),
            "status {status}"
        );
    }
    assert!(logged().contains("check ended with status 139"));
    let job = ("SLURM_JOB_ID", "77");
    let damage = "rdma-doctor: damage: did not answer: mlx5_1 (input/output error (EIO))";
    let (ended, drained) = said(damage, 3, "allocated\n", &[job]);
    assert_eq!(ended, Some(1));
    assert!(drained.contains("Reason=rdma-doctor: damage: did not answer: mlx5_1"));
    let open = "rdma-doctor: undecided: not examined: gpus";
    assert_eq!(said(open, 3, "idle\n", &[]), (Some(0), String::new()));
    assert!(logged().contains("not examined: gpus"));
    let all = ("DRAIN_ON", "undecided failure");
    for (says, status) in [(open, 3), ("", 70), ("", 124)] {
        let (ended, drained) = said(says, status, "allocated\n", &[job, all]);
        assert_eq!(ended, Some(1), "status {status}");
        assert!(drained.contains("State=DRAIN"), "status {status}");
    }
    // After the job nothing is sent back to the queue.
    let epilog = ("SLURM_SCRIPT_CONTEXT", "epilog_slurmd");
    let (ended, drained) = said(damage, 3, "allocated\n", &[job, epilog]);
    assert!(ended == Some(0) && drained.contains("State=DRAIN"));
    let asked = std::fs::read_to_string(dir.join("asked")).unwrap();
    assert_eq!(
        asked.lines().next(),
        Some("check --alone --format slurm --deadline 30")
    );
    keeps_the_last_good_recording(&dir, &said);
    let conf = std::fs::read_to_string(made.join("etc/slurm/rdma-doctor.conf")).unwrap();
    assert!(
        conf.contains("\nProlog=/etc/slurm/rdma-doctor.sh\n")
            && conf.contains("\nHealthCheckProgram=/etc/slurm/rdma-doctor.sh\n")
    );
}

/// Runs the prolog: what its doctor says, and with which status; the node's state; variables. It gives the status, and how it drained.
type RunProlog<'r> = dyn Fn(&str, u8, &str, &[(&str, &str)]) -> (Option<i32>, String) + 'r;

/// With LAST_GOOD the prolog judges a recording, against the last one without an error, which it keeps.
fn keeps_the_last_good_recording(dir: &Scratch, said: &RunProlog<'_>) {
    // The stand-in for the doctor writes what it is asked to record.
    program(
        &dir.join("doctor"),
        &format!(
            "echo \"$*\" >>{0}/asked; \
             if [ \"$1\" = record ]; then [ ! -e {0}/mute ] || exit 70; echo recorded >\"${{@: -1}}\"; exit 0; fi; \
             cat {0}/says; exit $(<{0}/status)",
            dir.display()
        ),
    );
    let kept = dir.join("kept");
    let vars = [("LAST_GOOD", kept.to_str().unwrap())];
    let asked = || {
        let asked = std::fs::read_to_string(dir.join("asked")).unwrap();
        std::fs::remove_file(dir.join("asked")).unwrap();
        asked.replace(kept.to_str().unwrap(), "KEPT")
    };
    asked();
    let record = "record --no-redact --deadline 30 -o KEPT/now.jsonl.zst\n";
    let good = || kept.join("good.jsonl.zst").exists();
    // An error is no baseline.
    let (_, drained) = said("rdma-doctor: an error", 2, "idle\n", &vars);
    assert!(drained.contains("Reason=rdma-doctor: an error") && !good());
    let first = format!("{record}check KEPT/now.jsonl.zst --format slurm --deadline 30\n");
    assert_eq!(asked(), first);
    said("rdma-doctor: no fault found", 0, "idle\n", &vars);
    assert!(good());
    assert_eq!(asked(), first);
    said("rdma-doctor: an error", 2, "idle\n", &vars);
    let held =
        "check KEPT/now.jsonl.zst --baseline KEPT/good.jsonl.zst --format slurm --deadline 30\n";
    assert_eq!(asked(), format!("{record}{held}"));
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&kept).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o700);
    // What cannot be recorded is examined.
    std::fs::write(dir.join("mute"), "").unwrap();
    let (_, drained) = said("rdma-doctor: an error", 2, "idle\n", &vars);
    assert!(drained.contains("Reason=rdma-doctor: an error"));
    assert_eq!(
        asked(),
        format!("{record}check --alone --format slurm --deadline 30\n")
    );
}

#[test]
fn node_problem_detectors_plugin_gives_what_it_takes() {
    let out = integrate(&["npd", "--doctor", doctor()]);
    let monitor: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(monitor["plugin"], "custom");
    let rule = &monitor["rules"][0];
    assert_eq!(rule["condition"], monitor["conditions"][0]["type"]);
    let words = rule["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap());
    let check = Command::new(rule["path"].as_str().unwrap())
        .args(words)
        .output()
        .unwrap();
    assert!((0..=2).contains(&check.status.code().unwrap()), "{check:?}");
    let said = text(&check.stdout);
    let most = monitor["pluginConfig"]["max_output_length"]
        .as_u64()
        .unwrap();
    assert_eq!(said.lines().count(), 1);
    assert!(said.trim_end().chars().count() as u64 <= most, "{said}");
}

#[test]
fn nagios_gets_a_line_that_it_understands() {
    let dir = written("nagios", &["--doctor", doctor()]);
    let objects = std::fs::read_to_string(dir.join("etc/nagios4/conf.d/rdma-doctor.cfg")).unwrap();
    let mut open = None;
    let mut seen = Vec::new();
    for line in objects
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
    {
        match (open, line) {
            (None, line) => {
                open = Some(
                    line.strip_prefix("define ")
                        .and_then(|l| l.strip_suffix(" {"))
                        .unwrap(),
                )
            }
            (Some(object), "}") => {
                seen.push(object);
                open = None;
            }
            (Some(_), line) => assert!(line.split_once(char::is_whitespace).is_some(), "{line}"),
        }
    }
    assert_eq!((open, seen), (None, vec!["command", "service"]));
    let nrpe = std::fs::read_to_string(dir.join("etc/nagios/nrpe.d/rdma-doctor.cfg")).unwrap();
    let line = nrpe
        .lines()
        .find_map(|line| line.strip_prefix("command[check_rdma]="))
        .unwrap();
    // NRPE gives the line to a shell.
    let check = Command::new("sh").args(["-c", line]).output().unwrap();
    let status = check.status.code().unwrap();
    let words = ["OK", "WARNING", "CRITICAL", "UNKNOWN"];
    let said = text(&check.stdout);
    let word = words[usize::try_from(status).unwrap()];
    assert!(
        said.starts_with(&format!("RDMA {word} - ")) && said.contains(" | errors="),
        "{status}: {said}"
    );
}

#[test]
fn systemd_takes_the_units_and_metrics_are_written() {
    let metrics = Scratch::new("metrics");
    let there = metrics.display().to_string();
    for (what, unit) in [
        ("systemd", "rdma-doctor"),
        ("prometheus", "rdma-doctor-metrics"),
    ] {
        let made = written(what, &["--doctor", doctor(), "--metrics", &there]);
        let dir = made.join("etc/systemd/system");
        let service = std::fs::read_to_string(dir.join(format!("{unit}.service"))).unwrap();
        let line = service
            .lines()
            .find_map(|line| line.strip_prefix("ExecStart="))
            .unwrap();
        let mut words = line.split(' ');
        let check = Command::new(words.next().unwrap())
            .args(words)
            .output()
            .unwrap();
        assert!((0..=3).contains(&check.status.code().unwrap()), "{check:?}");
        if have("systemd-analyze", &["systemd-analyze", "--version"]) {
            let verified = Command::new("systemd-analyze")
                .args(["verify", "--man=no"])
                .args([
                    dir.join(format!("{unit}.service")),
                    dir.join(format!("{unit}.timer")),
                ])
                .output()
                .unwrap();
            let said = text(&verified.stderr);
            // It reads the machine's own units too, and tells what is wrong with those.
            assert!(!said.contains("rdma-doctor"), "{said}");
            assert!(verified.status.success(), "{said}");
            // From 0, nothing could be done with it, to 10 in tenths; a unit that takes nothing from its service has 96.
            let rated = Command::new("systemd-analyze")
                .args(["security", "--offline=yes", "--no-pager", "--threshold=55"])
                .arg(dir.join(format!("{unit}.service")))
                .output()
                .unwrap();
            assert!(rated.status.success(), "{}", text(&rated.stdout));
        }
    }
    let written = std::fs::read_to_string(metrics.join("rdma_doctor.prom")).unwrap();
    assert!(written.contains("\nrdma_doctor_status "), "{written}");
    assert_eq!(std::fs::read_dir(&metrics).unwrap().count(), 1);
}

/// The documents of a file of YAML, as JSON.
fn yaml(path: &Path) -> Vec<Value> {
    let program =
        "import json, sys, yaml\nprint(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
    let out = Command::new("python3")
        .args(["-c", program])
        .arg(path)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

#[test]
fn kubernetes_and_prometheus_read_their_files() {
    if !have("Python's YAML", &["python3", "-c", "import yaml"]) {
        return;
    }
    let dir = written(
        "k8s",
        &[
            "--nodes",
            "16",
            "--image",
            "registry.example.org:5000/hpc/rdma-doctor:1",
        ],
    );
    let set = yaml(&dir.join("rdma-doctor-daemonset.yaml"));
    assert_eq!(set.len(), 1);
    assert_eq!(
        (&set[0]["apiVersion"], &set[0]["kind"]),
        (&Value::from("apps/v1"), &Value::from("DaemonSet"))
    );
    assert_eq!(
        set[0]["spec"]["selector"]["matchLabels"],
        set[0]["spec"]["template"]["metadata"]["labels"]
    );
    let pod = &set[0]["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(
        container["image"],
        "registry.example.org:5000/hpc/rdma-doctor:1"
    );
    let script = container["command"][2].as_str().unwrap();
    let checked = Command::new("sh")
        .args(["-n", "-c", script])
        .status()
        .unwrap();
    assert!(checked.success(), "{script}");
    let line = script.replace("\\\n", " ");
    let line = line.lines().find(|line| line.contains("nsenter")).unwrap();
    understood(
        line.split_whitespace()
            .skip_while(|word| !word.ends_with("/rdma-doctor")),
    );

    let job = yaml(&dir.join("rdma-doctor-job.yaml"));
    let [service, job] = job.as_slice() else {
        panic!("a service and a job: {job:?}")
    };
    let spec = &job["spec"];
    assert_eq!(
        (
            spec["completionMode"].as_str(),
            spec["completions"].as_u64(),
            spec["parallelism"].as_u64()
        ),
        (Some("Indexed"), Some(16), Some(16))
    );
    let template = &spec["template"];
    assert_eq!(service["spec"]["selector"], template["metadata"]["labels"]);
    assert_eq!(service["metadata"]["name"], template["spec"]["subdomain"]);
    let command = template["spec"]["containers"][0]["command"]
        .as_array()
        .unwrap();
    let words: Vec<&str> = command.iter().map(|word| word.as_str().unwrap()).collect();
    // The first pod's name, as an Indexed Job gives it, in the service's domain.
    let at = format!(
        "--rendezvous={}-0.{}:",
        job["metadata"]["name"].as_str().unwrap(),
        service["metadata"]["name"].as_str().unwrap()
    );
    assert!(words.iter().any(|word| word.starts_with(&at)), "{words:?}");
    understood(words.into_iter());

    let dir = written("prometheus", &[]);
    let rules = yaml(&dir.join("etc/prometheus/rules/rdma-doctor.yaml"));
    let names: Vec<&str> = rules[0]["groups"][0]["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| rule["alert"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "RdmaUnfit",
            "RdmaWarnings",
            "RdmaUndecided",
            "RdmaAreaNotExamined",
            "RdmaNotExamined"
        ]
    );
}

/// What a recipe's consumer says of it: Prometheus, Kubernetes' API, and the schemas of GitHub's and GitLab's workflows.
#[test]
fn each_consumer_takes_its_recipe() {
    let dir = written("prometheus", &[]);
    let rules = dir.join("etc/prometheus/rules/rdma-doctor.yaml");
    if have("promtool", &["promtool", "--version"]) {
        let checked = Command::new("promtool")
            .args(["check", "rules"])
            .arg(&rules)
            .output()
            .unwrap();
        assert!(checked.status.success(), "{}", text(&checked.stderr));
        let fixture = format!(
            "{}/fixtures/modelled-ib-polling.jsonl",
            env!("CARGO_MANIFEST_DIR")
        );
        let metrics = Command::new(doctor())
            .args(["check", "--format", "prometheus", &fixture])
            .output()
            .unwrap();
        let mut promtool = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = promtool.stdin.take().unwrap();
        stdin.write_all(&metrics.stdout).unwrap();
        drop(stdin);
        let out = promtool.wait_with_output().unwrap();
        // Status 3: it finds the style of a name wanting, and reads all.
        assert!(
            matches!(out.status.code(), Some(0 | 3)),
            "{}",
            text(&out.stderr)
        );
    }
    let dir = written("k8s", &[]);
    if python(&["-c", "import kubernetes_validate"])
        .status
        .success()
    {
        for file in ["rdma-doctor-daemonset.yaml", "rdma-doctor-job.yaml"] {
            let file = dir.join(file).display().to_string();
            let checked = python(&["-m", "kubernetes_validate", "--strict", &file]);
            let said = text(&[checked.stdout, checked.stderr].concat());
            assert!(checked.status.success(), "{said}");
        }
    } else {
        skipped("kubernetes-validate");
    }
    if !python(&["-c", "import check_jsonschema"]).status.success() {
        return skipped("check-jsonschema");
    }
    for (what, file, schema) in [
        (
            "github",
            ".github/workflows/rdma-doctor.yaml",
            "vendor.github-workflows",
        ),
        ("gitlab", ".gitlab-ci.yml", "vendor.gitlab-ci"),
    ] {
        let dir = written(what, &["--image", "registry.example.org/rdma-doctor:1"]);
        let file = dir.join(file).display().to_string();
        let checked = python(&["-m", "check_jsonschema", "--builtin-schema", schema, &file]);
        let said = text(&[checked.stdout, checked.stderr].concat());
        assert!(checked.status.success(), "{what}: {said}");
        // Each line that runs the doctor is one that it takes.
        let lines = std::fs::read_to_string(&file).unwrap();
        let runs = lines
            .lines()
            .filter_map(|line| Some(line.split_once("rdma-doctor test ")?.1));
        let mut count = 0;
        for line in runs.filter(|line| line.contains("--format")) {
            let line = line.split(" || ").next().unwrap();
            understood(
                ["rdma-doctor", "test"]
                    .into_iter()
                    .chain(line.split_whitespace()),
            );
            count += 1;
        }
        assert!(count > 0, "{what}");
    }
}

/// Each recipe says which areas count and what each status does.
#[test]
fn each_recipe_states_areas_and_statuses() {
    for what in [
        "slurm",
        "nagios",
        "prometheus",
        "grafana",
        "k8s",
        "helm",
        "systemd",
        "github",
        "gitlab",
    ] {
        let printed = text(&integrate(&[what]).stdout);
        for word in ["rdma-doctor-areas(7)", "undecided"] {
            assert!(printed.contains(word), "{what}: {word}");
        }
    }
}

/// Says that the doctor's own parser takes this command line. A folder for metrics is the node's that runs it: here the file alone stands.
fn understood<'w>(words: impl Iterator<Item = &'w str>) {
    let here = |word: &'w str| match word.strip_prefix("/var/lib/") {
        Some(path) => path.rsplit('/').next().unwrap_or(path),
        None => word,
    };
    if let Err(error) = Cli::try_parse_from(words.map(here)) {
        panic!("{error}");
    }
}
