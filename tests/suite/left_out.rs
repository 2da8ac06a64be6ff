//! What is behind a reader's bound is gone: the report says so, its areas are in part, and nothing is healthy. What was read is judged.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rdma_doctor::nccl_log::{Limits, Reader};
use rdma_doctor::tool_output;
use serde_json::Value;

use crate::place;

/// A port of a host that works, and one that a subnet manager forgot.
const ACTIVE: &str = "link mlx5_0/1 subnet_prefix fe80:0000:0000:0000 lid 3 sm_lid 1 lmc 0 state ACTIVE physical_state LINK_UP\n";
const INIT: &str = "link mlx5_0/1 subnet_prefix fe80:0000:0000:0000 lid 65535 sm_lid 0 lmc 0 state INIT physical_state LINK_UP\n";
const FAULT: &str = "ib/not-configured";

/// What a host's `rdma link` prints.
fn output(host: &str, link: &str) -> String {
    format!("[root@{host} ~]# rdma link\n{link}")
}

fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("left-out-{name}"));
    std::fs::write(&path, bytes).unwrap();
    path
}

/// A judged input.
struct Judged {
    exit: i32,
    report: Value,
}

fn doctor(command: &str, format: &str, path: &Path) -> Output {
    let mut doctor = Command::new(place::doctor());
    doctor.args([command, "--format", format]).arg(path);
    doctor.output().unwrap()
}

impl Judged {
    fn of(command: &str, path: &Path) -> Self {
        let json = doctor(command, "json", path);
        let said = String::from_utf8_lossy(&json.stderr);
        Judged {
            exit: json.status.code().unwrap(),
            report: serde_json::from_slice(&json.stdout)
                .unwrap_or_else(|error| panic!("{}: {error}: {said}", path.display())),
        }
    }

    fn causes(&self) -> Vec<&str> {
        let causes = self.report["causes"].as_array().unwrap().iter();
        causes.filter_map(|one| one["check"].as_str()).collect()
    }

    /// Holds that it says what was left out, that nothing is healthy, and that areas are in part for it.
    fn leaves_out(&self, what: &str) -> &Self {
        let damage = self.report["damage"].to_string();
        assert!(damage.contains(what), "{what}: {damage}");
        let headline = &self.report["headline"];
        if self.exit == 3 {
            assert!(headline.to_string().contains("not read"), "{headline}");
        }
        assert_ne!(self.exit, 0, "{headline}");
        assert_ne!(self.report["status"], "healthy");
        let areas = self.report["areas"].as_array().unwrap().iter();
        for area in areas.filter(|area| area["area"] != "cluster") {
            assert_ne!(area["state"], "examined", "{area}");
        }
        self
    }

    /// Holds that the fault that was read is said, and counts.
    fn has_fault(&self) {
        assert!(self.causes().contains(&FAULT), "{:?}", self.causes());
        assert_eq!(self.exit, 2);
    }

    fn has_no_fault(&self) {
        assert!(!self.causes().contains(&FAULT), "{:?}", self.causes());
        assert_eq!(self.exit, 3);
    }
}

fn archive(members: impl IntoIterator<Item = (String, Vec<u8>)>) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, bytes) in members {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, &*bytes).unwrap();
    }
    tar.into_inner().unwrap()
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

/// Lines that do not pack well, so that a part of what is packed can be read.
fn noise(lines: usize) -> String {
    let mut state = 7u64;
    (0..lines).fold(String::new(), |mut text, _| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let _ = writeln!(text, "{state:x}");
        text
    })
}

#[test]
fn a_text_names_more_hosts_than_are_told_apart() {
    let hosts = |faulty: usize| {
        let link = |host| if host == faulty { INIT } else { ACTIVE };
        (0..=1024).fold(String::new(), |text, host| {
            text + &output(&format!("node{host}"), link(host))
        })
    };
    let what = "1 host was not read (more than 1024 in all)";
    let beyond = file("hosts.txt", hosts(1024).as_bytes());
    Judged::of("check", &beyond).leaves_out(what).has_no_fault();
    let inside = file("hosts-inside.txt", hosts(7).as_bytes());
    Judged::of("check", &inside).leaves_out(what).has_fault();
    assert_eq!(Judged::of("log", &beyond).exit, 3);
    let whole = hosts(7).replace("node1024", "node1023");
    let whole = Judged::of("check", &file("hosts-whole.txt", whole.as_bytes()));
    assert_eq!(
        whole.report.get("damage"),
        None,
        "{}",
        whole.report["damage"]
    );
}

#[test]
fn an_archive_has_more_members_than_are_read() {
    for faulty in [0, 20_000] {
        let members = (0..=20_000).map(|number| {
            let text = match number {
                _ if number == faulty => output("node1", INIT),
                0 => output("node2", ACTIVE),
                _ => String::new(),
            };
            (format!("{number}.txt"), text.into_bytes())
        });
        let path = file(&format!("members-{faulty}.tar"), &archive(members));
        let judged = Judged::of("check", &path);
        judged.leaves_out("at least 1 member was not read (more than 20000 in all)");
        match faulty {
            0 => judged.has_fault(),
            _ => judged.has_no_fault(),
        }
    }
}

#[test]
fn a_text_is_longer_than_is_read() {
    // Few lines, each long: what a debug build takes for a line is most of its time.
    let line = "The job was slow again, and nobody knows why it was so slow. ".repeat(56);
    let prose = (line + "\n").repeat(10_000);
    assert!(prose.len() > 32 << 20);
    let what = "at least 1 byte was not read (a text of more than 32 MiB)";
    let beyond = output("node1", ACTIVE) + "```\n" + &prose + &output("node2", INIT);
    Judged::of("check", &file("long.txt", beyond.as_bytes()))
        .leaves_out(what)
        .has_no_fault();
    let inside = output("node1", INIT) + "```\n" + &prose;
    Judged::of("check", &file("long-inside.txt", inside.as_bytes()))
        .leaves_out(what)
        .has_fault();
}

#[test]
fn an_archive_lies_too_deep() {
    let mut deep = archive([("node1.txt".to_owned(), output("node1", INIT).into_bytes())]);
    for _ in 0..3 {
        deep = packed(&archive([("in.tar".to_owned(), deep)]));
    }
    for (link, name) in [(ACTIVE, "deep"), (INIT, "deep-inside")] {
        let beside = ("node2.txt".to_owned(), output("node2", link).into_bytes());
        let path = file(
            &format!("{name}.tar"),
            &archive([beside, ("deep.tar".into(), deep.clone())]),
        );
        let judged = Judged::of("check", &path);
        judged.leaves_out("1 archive was not read (inside of 3 other archives)");
        match link == INIT {
            true => judged.has_fault(),
            false => judged.has_no_fault(),
        }
    }
}

/// A zip of stored members (APPNOTE.TXT), without the end unless it is whole.
fn zipped(members: &[(&str, String)], is_whole: bool) -> Vec<u8> {
    let mut zip = Vec::new();
    for (name, text) in members {
        zip.extend(b"PK\x03\x04");
        zip.extend([0; 14]);
        zip.extend((text.len() as u32).to_le_bytes());
        zip.extend((text.len() as u32).to_le_bytes());
        zip.extend((name.len() as u16).to_le_bytes());
        zip.extend([0; 2]);
        zip.extend(name.as_bytes());
        zip.extend(text.as_bytes());
    }
    if is_whole {
        zip.extend(b"PK\x05\x06");
        zip.extend([0; 18]);
    }
    zip
}

#[test]
fn an_archive_is_cut() {
    for (link, name) in [(ACTIVE, "cut"), (INIT, "cut-inside")] {
        let first = output("node1", link);
        let second = output("node2", INIT) + &noise(20_000);
        let members = [("1.txt", first.clone()), ("2.txt", second)];
        let whole = archive(
            members
                .clone()
                .map(|(name, text)| (name.to_owned(), text.into_bytes())),
        );
        let gzip = packed(&whole);
        let zip = zipped(&members[..1], false);
        // In the second's header, between both, in the second's text, in what is packed, before a zip's end.
        for (at, bytes) in [
            &whole[..1024 + 100],
            &whole[..1024],
            &packed(&whole[..1024]),
            &gzip[..gzip.len() / 4 * 3],
            &zip,
        ]
        .into_iter()
        .enumerate()
        {
            let judged = Judged::of("check", &file(&format!("{name}-{at}"), bytes));
            judged.leaves_out("not read");
            match link == INIT {
                true => judged.has_fault(),
                false if at == 3 => assert_ne!(judged.exit, 0),
                false => judged.has_no_fault(),
            }
        }
        let good = Judged::of(
            "check",
            &file(&format!("{name}.zip"), &zipped(&members[..1], true)),
        );
        assert_eq!(good.report.get("damage"), None, "{}", good.report["damage"]);
    }
}

#[test]
fn a_directory_lies_too_deep() {
    let top = Path::new(env!("CARGO_TARGET_TMPDIR")).join("left-out-directory");
    let deep = (0..17).fold(top.clone(), |path, number| path.join(number.to_string()));
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("far.txt"), output("node2", INIT)).unwrap();
    std::fs::write(top.join("near.txt"), output("node1", ACTIVE)).unwrap();
    let what = "1 directory was not read (more than 16 directories deep)";
    for command in ["check", "log"] {
        Judged::of(command, &top).leaves_out(what).has_no_fault();
    }
}

/// Two hosts that use RDMA, a flood of warnings of the first, and the last one of the second.
fn flood(warnings: usize) -> String {
    let mut text = String::new();
    for (host, way) in [("n1", "send"), ("n2", "receive")] {
        let _ = writeln!(
            text,
            "{host}:7:9 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0"
        );
        let _ = writeln!(
            text,
            "{host}:7:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [{way}] via NET/IB/0/GDRDMA"
        );
    }
    for number in 0..warnings {
        let [a, b] = [number / 100, number % 100];
        let _ = writeln!(
            text,
            "n1:7:9 [0] p2p.cc:80 NCCL WARN NET/IB : mlx5_{a}:{b} Got async event : port error"
        );
    }
    text + "n2:7:9 [0] p2p.cc:80 NCCL WARN NET/IB : mlx5_9:1 Got async event : port error\n"
}

#[test]
fn a_flood_of_events_hides_no_host() {
    let path = file("flood.log", flood(3000).as_bytes());
    let flooded = Judged::of("log", &path);
    flooded.leaves_out("events were not read (more than 200 of one kind)");
    let named = flooded.report["causes"].to_string() + &flooded.report["notes"].to_string();
    assert!(named.contains("n2"), "{named}");
    let text = doctor("log", "text", &path).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains("left   ") && text.contains("not read"),
        "{text}"
    );
    let few = Judged::of("log", &file("few.log", flood(20).as_bytes()));
    assert_eq!(few.report.get("damage"), None, "{}", few.report["damage"]);
}

#[test]
fn a_packed_log_is_cut() {
    let healthy = flood(0)
        .lines()
        .take(4)
        .fold(String::new(), |all, line| all + line + "\n");
    let noise = noise(40_000);
    let gzip = packed((healthy + &noise).as_bytes());
    let cut = Judged::of("log", &file("cut.log.gz", &gzip[..gzip.len() / 2]));
    cut.leaves_out("at least 1 line was not read");
}

#[test]
fn bounds_within_a_log_are_said() {
    let digest = |text: &str, limits: Limits| {
        let mut reader = Reader::new(limits);
        reader.feed(text.as_bytes());
        let left_out = reader.finish(None).not_read;
        left_out.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let hosts = (0..5).fold(String::new(), |text, host| {
        text + &format!("n{host}:7:9 [0] NCCL INFO Using network IB\n")
    });
    let few = Limits {
        processes: 3,
        ..Limits::default()
    };
    assert_eq!(
        digest(&hosts, few),
        ["2 lines were not read (of processes beyond the first 3)"]
    );
    assert!(digest(&hosts, Limits::default()).is_empty());
    // Outputs behind the first 2 MiB of a log have 1 MiB of room.
    let step = "step 1: the loss is what it was before, and all is well\n".repeat(40_000);
    let kernel = (0..16_000).fold(String::new(), |text, at| {
        text + &format!("[{at:5}.000001] NVRM: Xid (PCI:0000:1b:00): 13, pid=7, a graphics exception of some length\n")
    });
    let said = digest(&(step.clone() + &kernel), Limits::default());
    assert!(
        matches!(said.as_slice(), [one] if one.ends_with("outputs were not read (a long log holds more than 1 MiB of them)")),
        "{said:?}"
    );
    assert!(digest(&step, Limits::default()).is_empty());
}

#[test]
fn bounds_of_outputs_are_said() {
    let left_out = |text: &str| {
        let found = tool_output::blocks((1..).zip(text.lines()));
        let said = found.left_out.iter().map(ToString::to_string);
        (found.blocks.len(), said.collect::<Vec<_>>())
    };
    let tagged = |hosts: usize| {
        (0..hosts).fold(String::new(), |text, host| {
            // Each twice: names are counted, and not lines.
            let line = format!("n{host}: CA 'mlx5_0'\n");
            text + &line + &line
        })
    };
    assert_eq!(left_out(&tagged(4096)).1, [""; 0]);
    let (_, said) = left_out(&tagged(4097));
    assert_eq!(
        said,
        ["1 host was not read (more than 4096 names before lines)"]
    );
    let outputs = "$ ibstat\nCA 'mlx5_0'\n".repeat(4097);
    let (blocks, said) = left_out(&outputs);
    assert_eq!(blocks, 4096);
    assert_eq!(said, ["1 output was not read (more than 4096 of one host)"]);
    let rule = "---------------";
    let alike = |count: usize| format!("{rule}\nn[1-{count}]\n{rule}\nCA 'mlx5_0'\n");
    assert_eq!(left_out(&alike(4096)).1, [""; 0]);
    let (blocks, said) = left_out(&(alike(4000) + &alike(1000)));
    assert_eq!(blocks, 4096);
    let bound = "904 outputs were not read (more than 4096 hosts or 64 MiB that are alike)";
    assert_eq!(said, [bound]);
}
