//! Fabrics that ibsim(8) simulates, each with one fault: what the tools print of them, and which fault leads the report.

mod net;
mod simulator;

use std::path::Path;

use net::Net;
use serde_json::Value;
use simulator::Simulator;

use crate::process::run_doctor;

/// Outputs that are taken of each fabric.
const TOOLS: [&str; 4] = [
    "ibnetdiscover",
    "ibnetdiscover -p",
    "iblinkinfo",
    "ibqueryerrors",
];

/// What the doctor says.
struct Said {
    exit: i32,
    /// The checks that lead, each with its sentence.
    causes: Vec<(String, String)>,
    text: String,
}

impl Said {
    fn of(command: &str, files: &[&Path]) -> Self {
        let mut args = vec![command];
        args.extend(files.iter().map(|path| path.to_str().unwrap()));
        let text = run_doctor(&args);
        args.push("--json");
        let json = run_doctor(&args);
        let report: Value = serde_json::from_slice(&json.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&json.stderr)));
        let said = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let causes = report["causes"].as_array().unwrap().iter();
        Said {
            exit: json.status.code().unwrap(),
            causes: causes
                .map(|one| (said(&one["check"]), said(&one["sentence"])))
                .collect(),
            text: String::from_utf8(text.stdout).unwrap(),
        }
    }

    /// What is wrong with what leads, if something is.
    fn complaint(&self, check: &str, words: &[&str]) -> Option<String> {
        let (leading, sentence) = self.causes.first().cloned().unwrap_or_default();
        let missing = words.iter().find(|word| !sentence.contains(**word));
        let is_right = leading == check && missing.is_none();
        (!is_right).then(|| {
            format!(
                "{leading}: {sentence} (not {check}, {missing:?})\n{}",
                self.text
            )
        })
    }

    fn is_quiet(&self) {
        assert!(self.causes.is_empty(), "{:?}\n{}", self.causes, self.text);
        assert_eq!(self.exit, 0, "{}", self.text);
    }
}

/// A fault, how it is made, and what leads the report.
struct Fault {
    name: &'static str,
    net: fn() -> Net,
    /// What is wrong in the cabling.
    cabling: fn(&mut Net),
    /// Commands to the simulator's console, before the tools run.
    commands: &'static [&'static str],
    /// The tools whose outputs are given.
    tools: &'static [usize],
    check: &'static str,
    words: &'static [&'static str],
}

const PLAIN: usize = 0;
const PORTS: usize = 1;
const LINKS: usize = 2;
const ERRORS: usize = 3;

/// Among the commands: the subnet manager ends.
const NO_MANAGER: &str = "";

fn as_planned(_: &mut Net) {}

const FAULTS: [Fault; 14] = [
    Fault {
        name: "a link of one lane, by both ends' capability",
        net: Net::tree,
        cabling: |net| net.rate("leaf1", 9, "1xHDR"),
        commands: &[],
        tools: &[PLAIN, LINKS],
        check: "ib-fabric/link-degraded",
        words: &["leaf1 port 9 - spine0 port 3 runs at 1X HDR; both ends support 4X HDR"],
    },
    Fault {
        name: "a link of one lane, by its equals alone",
        net: Net::tree,
        cabling: |net| net.rate("leaf1", 9, "1xHDR"),
        commands: &[],
        tools: &[PLAIN],
        check: "ib-fabric/link-below-equals",
        words: &[
            "leaf1 port 9 - spine0 port 3 runs at 1X HDR",
            "run at 4X HDR",
        ],
    },
    Fault {
        name: "a host's link of an older speed, by its equals alone",
        net: Net::tree,
        cabling: |net| net.rate("leaf2", 3, "4xFDR"),
        commands: &[],
        tools: &[PORTS],
        check: "ib-fabric/link-below-equals",
        words: &[
            "n18 mlx5_0 port 1",
            "leaf2 port 3",
            "runs at 4X FDR",
            "run at 4X HDR",
        ],
    },
    Fault {
        name: "a host's link of an older speed",
        net: Net::tree,
        cabling: |net| net.rate("leaf2", 3, "4xFDR"),
        commands: &[],
        tools: &[PLAIN, PORTS, LINKS, ERRORS],
        check: "ib-fabric/link-degraded",
        words: &[
            "n18 mlx5_0 port 1",
            "leaf2 port 3",
            "4X FDR; both ends support 4X HDR",
        ],
    },
    Fault {
        name: "an uplink that is not there",
        net: Net::tree,
        cabling: |net| net.unplug("leaf2", 9),
        commands: &[],
        tools: &[PLAIN],
        check: "ib-fabric/uplinks-missing",
        words: &[
            "leaf2 has 3 uplinks",
            "equals have 4: 1 instead of 2 to spine0; no link at port 9",
        ],
    },
    Fault {
        name: "an uplink that goes to another spine",
        net: Net::tree,
        cabling: |net| net.replug("leaf3", 9, "spine1", 9),
        commands: &[],
        tools: &[PORTS],
        check: "ib-fabric/uplinks-missing",
        words: &[
            "leaf3 has 4 uplinks where its equals have 4: 1 instead of 2 to spine0, 3 instead of 2 to spine1",
        ],
    },
    Fault {
        name: "a host without one of its rails",
        net: Net::rails,
        cabling: |net| net.unplug("rail1", 4),
        commands: &[],
        tools: &[PLAIN],
        check: "ib-fabric/host-lacks-rail",
        words: &["n3 has 1 of the 2 links", "no link at mlx5_1"],
    },
    Fault {
        name: "two rails of a host crossed",
        net: Net::rails,
        cabling: |net| net.swap(("rail0", 4), ("rail1", 4)),
        commands: &[],
        tools: &[PLAIN],
        check: "ib-fabric/rail-crossed",
        words: &[
            "rail0 port 4 - n3 mlx5_1 port 1: mlx5_1, at a switch where 87.5 % of",
            "are mlx5_0",
        ],
    },
    Fault {
        name: "a link that damages symbols",
        net: Net::tree,
        cabling: as_planned,
        commands: &["PerformanceSet \"leaf1\"[9] PortCounters.SymbolErrorCounter=77"],
        tools: &[PLAIN, ERRORS],
        check: "ib-fabric/errors-stand-out",
        words: &["leaf1 port 9 - spine0 port 3", "SymbolErrorCounter 77"],
    },
    Fault {
        name: "a host whose adapter answers nothing",
        net: Net::tree,
        cabling: as_planned,
        commands: &[NO_MANAGER, "Error \"n5-mlx5_0\" 100"],
        tools: &[PORTS],
        check: "ib-fabric/port-unanswered",
        words: &["leaf0 port 6", "up"],
    },
    Fault {
        name: "two switches of one GUID",
        net: Net::tree,
        cabling: as_planned,
        commands: &[NO_MANAGER, "Guid \"leaf2\" 0x200001"],
        tools: &[PORTS],
        check: "ib-fabric/port-unanswered",
        words: &["spine", "is up, and no device behind it answered"],
    },
    Fault {
        name: "a LID twice",
        net: Net::tree,
        cabling: as_planned,
        commands: &[NO_MANAGER, "Baselid \"n5-mlx5_0\"[1] 2"],
        tools: &[PLAIN],
        check: "ib-fabric/lids-not-unique",
        words: &["LID 2"],
    },
    Fault {
        name: "a link that nobody configured",
        net: Net::tree,
        cabling: as_planned,
        commands: &[NO_MANAGER, "Unlink \"leaf3\"[2]", "ReLink \"leaf3\"[2]"],
        tools: &[LINKS],
        check: "ib-fabric/link-not-configured",
        words: &["leaf3 port 2", "init"],
    },
    Fault {
        name: "a link that is down and had been up",
        net: Net::tree,
        cabling: as_planned,
        commands: &[
            "Unlink \"leaf3\"[2]",
            "PerformanceSet \"leaf3\"[2] PortCounters.LinkDownedCounter=3",
        ],
        tools: &[PLAIN, LINKS, ERRORS],
        check: "ib-fabric/link-down",
        words: &["leaf3 port 2", "LinkDownedCounter 3"],
    },
];

/// The outputs of these tools.
fn outputs(simulator: &Simulator, tools: &[usize]) -> Vec<std::path::PathBuf> {
    let lines = tools.iter().map(|tool| TOOLS[*tool]);
    lines.map(|line| simulator.output(line)).collect()
}

fn said_of(command: &str, files: &[std::path::PathBuf]) -> Said {
    let files: Vec<&Path> = files.iter().map(|path| path.as_path()).collect();
    Said::of(command, &files)
}

#[test]
fn each_fault_of_a_simulated_fabric_leads() {
    if !simulator::is_here() {
        return;
    }
    let mut complaints = Vec::new();
    for (at, fault) in FAULTS.iter().enumerate() {
        let mut net = (fault.net)();
        (fault.cabling)(&mut net);
        let mut simulator = Simulator::start(&net, &format!("fault{at}"));
        for line in fault.commands {
            if *line == NO_MANAGER {
                simulator.end_manager();
            } else {
                simulator.say(line);
            }
        }
        let files = outputs(&simulator, fault.tools);
        let said = said_of("check", &files);
        println!("{}: {:?}", fault.name, said.causes);
        let complaint = said.complaint(fault.check, fault.words);
        complaints.extend(complaint.map(|text| format!("{}: {text}", fault.name)));
        assert_eq!(said.causes, said_of("log", &files).causes, "{}", fault.name);
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn healthy_and_uneven_fabrics_are_quiet() {
    if !simulator::is_here() {
        return;
    }
    type Make = fn() -> Net;
    let nets: [(&str, Make); 5] = [
        ("tree", Net::tree),
        ("uneven", Net::uneven_tree),
        ("rails", Net::rails),
        ("tiers", Net::three_tiers),
        ("ring", Net::ring),
    ];
    for (name, net) in nets {
        let simulator = Simulator::start(&net(), name);
        for tools in [
            &[PLAIN][..],
            &[PORTS],
            &[LINKS],
            &[PLAIN, PORTS, LINKS, ERRORS],
        ] {
            let said = said_of("check", &outputs(&simulator, tools));
            println!("{name} {tools:?}");
            said.is_quiet();
        }
        wait_for(&simulator.subnet_list());
        said_of("check", &[simulator.subnet_list()]).is_quiet();
    }
}

/// Waits until a file is there.
fn wait_for(path: &Path) {
    for _ in 0..100 {
        if path.is_file() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn the_files_of_opensm_and_ibdiagnet_tell_the_same() {
    if !simulator::is_here() {
        return;
    }
    let mut net = Net::tree();
    net.rate("leaf1", 9, "1xHDR");
    net.unplug("leaf2", 9);
    let simulator = Simulator::start(&net, "dumps");
    wait_for(&simulator.subnet_list());
    let said = said_of("fabric", &[simulator.subnet_list()]);
    let leading = |said: &Said| -> Vec<String> {
        said.causes
            .iter()
            .map(|(_, sentence)| sentence.clone())
            .collect()
    };
    let expected = [
        "leaf1 port 9 - spine0 port 3 runs at 1X HDR; 3 of 4 uplinks of leaf1 run at 4X HDR",
        "leaf2 has 3 uplinks where its equals have 4: 1 instead of 2 to spine0; no link at port 9",
    ];
    assert_eq!(leading(&said), expected, "{}", said.text);
    let tables = simulator.file("db_csv.txt", &net.to_tables());
    let said = said_of("fabric", std::slice::from_ref(&tables));
    let expected = [
        "leaf1 port 9 - spine0 port 3 runs at 1X HDR; both ends support 4X HDR",
        expected[1],
        "leaf3 port 9 - spine0 port 7: SymbolErrorCounter 500 at leaf3 port 9; the median SymbolErrorCounter of the ports checked is 0",
    ];
    assert_eq!(leading(&said), expected, "{}", said.text);
    let cut = edited(&tables, "cut.csv", |text| {
        text[..text.len() * 2 / 3].to_owned()
    });
    let said = said_of("fabric", &[cut]);
    assert!(
        said.text
            .contains("was not read (the last table has no end)"),
        "{}",
        said.text
    );
}

/// An output as it would be if somebody had changed it so.
fn edited(path: &Path, name: &str, edit: impl Fn(&str) -> String) -> std::path::PathBuf {
    let to = path.with_file_name(name);
    std::fs::write(&to, edit(&std::fs::read_to_string(path).unwrap())).unwrap();
    to
}

#[test]
fn contradictions_and_cuts_are_said() {
    if !simulator::is_here() {
        return;
    }
    let simulator = Simulator::start(&Net::tree(), "edited");
    let plain = simulator.output(TOOLS[PLAIN]);
    let own_line = "[3]\t\"S-0000000000200001\"[9]";
    let one_sided = edited(&plain, "one-sided.txt", |text| {
        let lines = text.lines().filter(|line| !line.starts_with(own_line));
        lines.collect::<Vec<_>>().join("\n")
    });
    let said = said_of("check", &[one_sided]);
    let words = ["leaf1 port 9 - spine0 port 3: spine0 port 3 does not list it"];
    assert_eq!(said.complaint("ib-fabric/link-one-sided", &words), None);
    let two_peers = edited(&plain, "two-peers.txt", |text| {
        text.replace(own_line, "[3]\t\"S-0000000000200002\"[9]")
    });
    let said = said_of("check", &[two_peers]);
    let words = ["is named with two peers"];
    assert_eq!(said.complaint("ib-fabric/link-one-sided", &words), None);
    // Cut at any device, the rest is missed: never is that fabric without a fault.
    let text = std::fs::read_to_string(&plain).unwrap();
    for part in [5, 30, 70, 95] {
        let cut = edited(&plain, "cut.txt", |text| {
            text[..text.len() * part / 100].to_owned()
        });
        let said = said_of("check", &[cut]);
        assert_eq!(said.exit, 3, "{part} % of {}: {}", text.len(), said.text);
        assert!(
            said.text.contains("was not read") || said.text.contains("were not read"),
            "{}",
            said.text
        );
    }
}

#[test]
fn a_plan_names_what_is_plugged_in_elsewhere() {
    if !simulator::is_here() {
        return;
    }
    let plan_of = |net: &Net, simulator: &Simulator| simulator.file("plan.csv", &net.to_plan());
    let mut net = Net::tree();
    let planned = Simulator::start(&net, "planned");
    let plain = planned.output(TOOLS[PLAIN]);
    let plan = plan_of(&net, &planned);
    let run = |plan: &Path, file: &Path| Said::of("fabric", &[file, Path::new("--plan"), plan]);
    run(&plan, &plain).is_quiet();
    let other = planned.file(
        "other.csv",
        &net.to_plan()
            .replace("leaf", "tor")
            .replace("mlx5", "hfi1")
            .replace("spine", "top"),
    );
    let words = ["none of 48 planned links is in this fabric"];
    let said = run(&other, &plain);
    assert_eq!(
        said.complaint("ib-fabric/plan-of-another-fabric", &words),
        None
    );
    let refused = run_doctor(&[
        "fabric",
        plain.to_str().unwrap(),
        "--plan",
        plain.to_str().unwrap(),
    ]);
    assert_eq!(refused.status.code(), Some(65));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("no cabling plan"));

    net.swap(("leaf0", 1), ("leaf0", 2));
    net.unplug("leaf1", 12);
    net.plug(("leaf2", 16), ("leaf3", 16));
    let actual = Simulator::start(&net, "actual");
    let plain = actual.output(TOOLS[PLAIN]);
    let said = run(&plan, &plain);
    let words = ["leaf0 port 1 - n1 mlx5_0 port 1: planned is n0 mlx5_0 port 1 - leaf0 port 1"];
    assert_eq!(said.complaint("ib-fabric/not-as-planned", &words), None);
    for words in [
        "leaf0 port 2 - n0 mlx5_0 port 1: planned is",
        "leaf1 port 12 - spine1 port 4 is planned, and neither end has a link",
        "leaf2 port 16 - leaf3 port 16 is in no row of the plan",
    ] {
        let text = said.text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(words), "{words}\n{}", said.text);
    }
    // The plan is one more text.
    assert_eq!(said.causes, said_of("check", &[plain, plan]).causes);
}
