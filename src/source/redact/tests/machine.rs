//! A whole machine, redacted: its questions are found again, and nothing of its identity is left.

use std::cell::RefCell;

use super::*;
use crate::probe::Ask;
use crate::source::recorder::Recorder;
use crate::source::recording::Recording;
use crate::source::{Source, wire};

/// A machine with one RDMA device on a network device that is named after its MAC address.
const MACHINE: &[&str] = &[
    r#"{"q":{"list":"/sys/class/infiniband"},"names":["mlx5_0","rocexb83fd20300c0ffee"]}"#,
    r#"{"q":{"read":"/sys/class/infiniband/mlx5_0/node_guid"},"text":"b83f:d203:00c0:ffee\n"}"#,
    r#"{"q":{"read":"/sys/class/infiniband/mlx5_0/node_desc"},"text":"node1720 HCA-1\n"}"#,
    r#"{"q":{"read":"/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0"},"text":"enxb83fd2c0ffee\n"}"#,
    r#"{"q":{"read":"/sys/class/infiniband/mlx5_0/ports/1/gids/0"},"text":"fe80:0000:0000:0000:ba3f:d2ff:fec0:ffee\n"}"#,
    r#"{"q":{"read":"/sys/class/infiniband/mlx5_0/ports/1/gids/1"},"text":"0000:0000:0000:0000:0000:ffff:0a01:0203\n"}"#,
    r#"{"q":{"read":"/sys/class/infiniband/rocexb83fd20300c0ffee/node_guid"},"text":"b83f:d203:00c0:ffee\n"}"#,
    r#"{"q":{"link":"/sys/class/infiniband/rocexb83fd20300c0ffee/device"},"text":"../../../0000:0c:00.0"}"#,
    r#"{"q":{"list":"/sys/class/net"},"names":["enxb83fd2c0ffee","lo"]}"#,
    r#"{"q":{"read":"/sys/class/net/enxb83fd2c0ffee/address"},"text":"b8:3f:d2:c0:ff:ee\n"}"#,
    r#"{"q":{"read":"/sys/class/net/lo/address"},"text":"00:00:00:00:00:00\n"}"#,
    r#"{"q":{"read":"/proc/sys/kernel/hostname"},"text":"node1720\n"}"#,
    r#"{"q":{"read":"/proc/net/route"},"text":"Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\nenxb83fd2c0ffee\t0002010A\t0302010A\t1\t0\t0\t0\t00FFFFFF\n"}"#,
    r#"{"q":{"read":"/proc/cmdline"},"text":"root=UUID=8932f937-d72c-4106-c12f-20bd9faed9f6 ip=10.1.2.3::10.1.2.1:255.255.255.0:node1720:eth0 password=t0ps3cret\n"}"#,
    r#"{"q":{"env":["NCCL_","UCX_","FI_","CUDA_"]},"value":{"NCCL_COMM_ID":"10.1.2.3:99","NCCL_DEBUG_FILE":"/lustre/people/alice/log","UCX_TOKEN":"t0ps3cret"}}"#,
    r#"{"q":{"read":"/sys/class/dmi/id/product_serial"},"text":"SN77X1234\n"}"#,
    r#"{"q":{"call":"ibv_query_device","device":"rocexb83fd20300c0ffee"},"value":{"node_guid":"0xb83fd20300c0ffee","gid":[254,128,0,0,0,0,0,0,186,63,210,255,254,192,255,238]}}"#,
    r#"{"q":{"run":["ssh","node1720.cluster.example","id","alice"]},"refused":"command-failed 255: alice@node1720.cluster.example: /home/alice/.ssh/id"}"#,
];

/// Asks on from what was said, as probes do.
fn probe(source: &dyn Source) {
    let ask = Ask::new(source);
    for device in ask.names("/sys/class/infiniband").known().unwrap().iter() {
        let base = format!("/sys/class/infiniband/{device}");
        let _ = ask.text(format!("{base}/node_guid"));
        if &**device == "mlx5_0" {
            let _ = ask.text(format!("{base}/node_desc"));
            for gid in 0..2 {
                let _ = ask.text(format!("{base}/ports/1/gids/{gid}"));
            }
            let ndev = ask.text(format!("{base}/ports/1/gid_attrs/ndevs/0"));
            let ndev = ndev.known().unwrap();
            assert!(
                ask.text(format!("/sys/class/net/{ndev}/address"))
                    .known()
                    .is_some()
            );
        } else {
            let _ = ask.link_name(format!("{base}/device"));
            let call = Question::call("ibv_query_device", [("device", (&**device).into())]);
            assert!(ask.value(call).known().is_some());
        }
    }
    for netdev in ask.names("/sys/class/net").known().unwrap().iter() {
        let _ = ask.text(format!("/sys/class/net/{netdev}/address"));
    }
    for path in [
        "/proc/sys/kernel/hostname",
        "/proc/net/route",
        "/proc/cmdline",
        "/sys/class/dmi/id/product_serial",
    ] {
        assert!(ask.text(path).known().is_some());
    }
    assert!(
        ask.value(Question::env(&["NCCL_", "UCX_", "FI_", "CUDA_"]))
            .known()
            .is_some()
    );
}

fn machine() -> Recording {
    let mut recording = Recording::new(Header {
        node: NODE.into(),
        ..Header::default()
    });
    for line in MACHINE {
        let line = line.replacen('{', "{\"probe\":\"p\",", 1);
        recording.add(wire::parse_line(&line).unwrap());
    }
    recording
}

fn recorded(source: &dyn Source) -> Vec<Line> {
    let lines = RefCell::new(Vec::new());
    probe(&Recorder::new(source, "p", |line| {
        lines.borrow_mut().push(line)
    }));
    lines.into_inner()
}

#[test]
fn a_redacted_recording_answers_every_question_that_follows_from_its_answers() {
    let raw = machine();
    let redactor = redactor("k");
    let mut redacted = Recording::new(redactor.header(raw.header.clone()));
    assert!(redacted.header.redacted && redacted.header.node == redactor.host(NODE));
    let lines: Vec<Line> = recorded(&raw.of("p"))
        .into_iter()
        .map(|l| redactor.line(l))
        .collect();
    lines.iter().cloned().for_each(|line| redacted.add(line));
    let again = recorded(&redacted.of("p"));
    for (first, again) in lines.iter().zip(&again) {
        let (
            Line::Reply {
                question: asked,
                reply,
                ..
            },
            Line::Reply {
                question,
                reply: said,
                ..
            },
        ) = (first, again)
        else {
            panic!("{first:?} {again:?}");
        };
        assert_eq!((asked, &reply.said), (question, &said.said));
    }
    assert_eq!(again.len(), lines.len());
}

#[test]
fn no_planted_secret_is_left_in_any_form() {
    let redactor = redactor("k");
    let written: String = machine()
        .to_lines()
        .into_iter()
        .filter_map(|line| wire::write_line(&redactor.line(line)))
        .chain([wire::write_header(
            &redactor.header(machine().header.clone()),
        )])
        .collect::<Vec<_>>()
        .join("\n")
        .to_lowercase();
    for secret in [
        "node1720",
        "cluster.example",
        "alice",
        "t0ps3cret",
        "10.1.2.3",
        "0a01:0203",
        "0302010a",
        "0a010203",
        "b8:3f:d2",
        "b83fd2",
        "b83f:d2",
        "c0ffee",
        "c0:ffee",
        "c0:ff:ee",
        "8932f937",
        "20bd9faed9f6",
        "sn77x1234",
        "186,63,210",
    ] {
        assert!(!written.contains(secret), "{secret} in\n{written}");
    }
}

#[test]
fn one_key_gives_one_pseudonym_and_another_another() {
    let lines = |key: &str| -> Vec<String> {
        let redactor = redactor(key);
        let lines = machine().to_lines().into_iter();
        lines
            .filter_map(|line| wire::write_line(&redactor.line(line)))
            .collect()
    };
    assert_eq!(lines("a"), lines("a"));
    let identities = lines("a")
        .into_iter()
        .zip(lines("b"))
        .filter(|(a, b)| a != b)
        .count();
    assert!(identities >= MACHINE.len() - 3, "{identities}");
}

#[test]
fn other_lines_are_redacted_too() {
    let redactor = redactor("k");
    let question = Question::read("/sys/class/net/enxb83fd2c0ffee/mtu");
    for line in [
        Line::Pending {
            probe: "p".into(),
            question: question.clone(),
        },
        Line::Drop(question),
        Line::Ended(ProbeEnd {
            probe: "p".into(),
            how: "panic in /home/alice/x/c0ffee.rs on node1720".into(),
            at: 1,
        }),
    ] {
        let written = wire::write_line(&redactor.line(line)).unwrap();
        assert!(
            !written.contains("b83fd2c0ffee")
                && !written.contains("alice")
                && !written.contains("node1720"),
            "{written}"
        );
    }
    let line = Line::Complete { lines: 3 };
    assert_eq!(redactor.line(line.clone()), line);
}
