//! Tests of the reader: line shapes from the wild and from the sources of NCCL, splitting, memory, hostile input.

use super::channel::{self, Channel, ChannelLine, Transport};
use super::event::{ClassCache, MessageClass, MessageKind};
use super::event_table;
use super::message::{self, MessageAction, MessageGroup};
use super::prefix::{self, LogLevel};
use super::{Digest, Limits, Reader, clock};

mod formats;
mod programs;
mod properties;
mod shapes;

fn digest(text: &str) -> Digest {
    let mut reader = Reader::new(Limits::default());
    reader.feed(text.as_bytes());
    reader.finish(None)
}

/// What becomes of a message, in a word: a sort, or `event CLASS`.
fn fate(level: LogLevel, message: &str) -> String {
    let bytes = message.as_bytes();
    let mut classes = ClassCache::default();
    let of = |is: MessageClass| match is {
        MessageClass::Event(row) => format!("event {}", event_table::class(usize::from(row))),
        MessageClass::Unwinding => "event unwinding".to_owned(),
        MessageClass::Unlisted => "failure".to_owned(),
        MessageClass::Known(sort) => sort.word().to_owned(),
        MessageClass::Nothing => "unlisted".to_owned(),
    };
    match level {
        LogLevel::Warn => of(classes.classify(MessageKind::Warning, bytes)),
        _ => match message::action_for_info(bytes) {
            MessageAction::Count(sort) | MessageAction::Keep(sort, ..) => sort.word().to_owned(),
            MessageAction::Channel => match channel::read(bytes) {
                ChannelLine::Channel(_) => "channel".to_owned(),
                ChannelLine::Other => "init".to_owned(),
                ChannelLine::Torn => "torn".to_owned(),
            },
            MessageAction::Unlisted => of(classes.classify(MessageKind::Info, bytes)),
        },
    }
}

#[test]
fn hosts_that_other_programs_name() {
    for (line, host) in [
        (
            "[1747301122.4] [gpu-c-15:4410 :0]  ucp_context.c:1582 UCX  ERROR no",
            Some("gpu-c-15"),
        ),
        (
            "Mon Jul 2 19:35:38 2018[1,520]<stderr>:[hercules-7:20490:0:20490] Caught",
            Some("hercules-7"),
        ),
        ("[gpu-3:12345] pml_ucx.c:309  Error: no", Some("gpu-3")),
        (
            "[c15:mpi_rank_3][mv2_print_wc_status_error] IBV_WC_RETRY_EXC_ERR",
            Some("c15"),
        ),
        (
            "mlx5: c18.example: got completion with error: 0 1",
            Some("c18.example"),
        ),
        (
            "was unable to complete a TCP connection to another process: Local host: c1 Remote host: h2",
            Some("c1"),
        ),
        (
            "[2025-05-01 10:00:00,000] [INFO] [logging.py:96:log_dist] step",
            None,
        ),
        (
            "[W430 03:57:13.2 socket.cpp:752] [c10d] failed to connect to [head:29500]",
            None,
        ),
        ("connection to [gpu-1:29500] refused", None),
        ("UCX  ERROR Local length on [mlx5_0:1] (synd 0x1)", None),
        (
            "[rank0]:[E504 10:00:01.1 ProcessGroupNCCL.cpp:616] [Rank 0] caught",
            None,
        ),
    ] {
        assert_eq!(prefix::host_of_program(line), host, "{line}");
    }
}

#[test]
fn prefixes_of_launchers_do_not_hide_the_writer() {
    let core = "node-7:4242:4250 [3] NCCL INFO Using network IB";
    for line in [
        core.to_owned(),
        format!("[1,3]<stdout>:{core}"),
        format!("[1,3]<stdout>: {core}"),
        format!("(RayWorkerWrapper pid=99, ip=10.0.0.7) {core}"),
        format!("[default3]:{core}"),
        format!(" 3: {core}"),
        format!("3:{core}"),
        format!("worker-0 trainer {core}"),
        format!("2025-03-04T05:06:07.891234Z {core}"),
        format!("2025-03-04T05:06:07.891234567Z stdout F {core}"),
        format!("[rank3]: {core}"),
        format!("\t{core}"),
        format!("[2025-03-04 05:06:07] {core}"),
    ] {
        let found: Vec<_> = prefix::messages(line.as_bytes()).collect();
        let [found] = found.as_slice() else {
            panic!("{line}: {found:?}");
        };
        let writer = found.writer.unwrap_or_else(|| panic!("{line}"));
        assert_eq!(
            (writer.host, writer.pid, writer.device),
            (&b"node-7"[..], 4242, Some(3)),
            "{line}"
        );
        assert_eq!(
            (found.level, found.message),
            (LogLevel::Info, &b"Using network IB"[..]),
            "{line}"
        );
    }
}

#[test]
fn warnings_name_their_source_since_two_three_and_their_function_since_two_thirty() {
    for (line, source) in [
        (
            "n1:1:2 [0] misc/ibvwrap.cc:262 NCCL WARN Call to ibv_open_device failed",
            "misc/ibvwrap.cc:262",
        ),
        (
            "[2025-03-04 05:06:07] n1:1:2 [0] transport/net_ib.cc:9 NCCL WARN x",
            "transport/net_ib.cc:9",
        ),
        (
            "[2025-03-04 05:06:07] n1:1:2 [0] p2p.cc:688 (ncclIbTest) NCCL WARN x",
            "p2p.cc:688",
        ),
        (
            "n1:1:2 [-1] ib_plugin.c:1615 NCCL WARN x",
            "ib_plugin.c:1615",
        ),
    ] {
        let found = prefix::messages(line.as_bytes()).next().unwrap();
        assert_eq!(found.level, LogLevel::Warn);
        assert_eq!(found.writer.unwrap().host, b"n1", "{line}");
        assert_eq!(found.source, Some(source.as_bytes()), "{line}");
    }
}

#[test]
fn two_messages_in_one_line_are_two_and_a_torn_one_is_no_channel() {
    let line = b"n1:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRn2:7:7 [1] NCCL INFO Using network IB";
    let found: Vec<_> = prefix::messages(line).collect();
    assert_eq!(found.len(), 2);
    assert_eq!(
        found[1].writer.unwrap().host,
        b"GDRn2",
        "what runs into a host's name cannot be told from it"
    );
    assert_eq!(found[1].message, b"Using network IB");
    let line = b"n1:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDR n2:7:7 [1] NCCL INFO Using network IB";
    let found: Vec<_> = prefix::messages(line).collect();
    assert_eq!(found[1].writer.unwrap().host, b"n2");
    assert_eq!(channel::read(found[0].message), ChannelLine::Torn);
}

#[test]
fn a_version_is_a_banner_and_not_what_pytorch_says_in_an_error() {
    let banner = prefix::messages(b"0: NCCL version 2.18.5+cuda12.2")
        .next()
        .unwrap();
    assert_eq!(
        (banner.level, banner.message),
        (LogLevel::Version, &b"NCCL version 2.18.5+cuda12.2"[..])
    );
    let inside =
        prefix::messages(b"n:1:1 [0] NCCL INFO NCCL version 2.26.2+cuda12.8").collect::<Vec<_>>();
    assert_eq!(inside.len(), 1);
    assert_eq!(inside[0].level, LogLevel::Info);
    assert_eq!(
        prefix::messages(b"RuntimeError: NCCL error in: x.cpp:1, NCCL version 2.18.1").count(),
        0
    );
    let amd = prefix::messages(b"RCCL version : 2.21.5-HEAD:abc")
        .next()
        .unwrap();
    assert_eq!(amd.level, LogLevel::Version);
}

#[test]
fn channels_of_all_releases() {
    let net = |from, to, receives, kind: &'static str, adapter, pxn, gdr, comm| {
        ChannelLine::Channel(Channel {
            from,
            to,
            receives,
            transport: Transport::Net,
            kind: kind.as_bytes(),
            adapter,
            pxn,
            gdr,
            comm,
        })
    };
    let local = |from, to, transport, kind: &'static str, comm| {
        ChannelLine::Channel(Channel {
            from,
            to,
            receives: false,
            transport,
            kind: kind.as_bytes(),
            adapter: 0,
            pxn: false,
            gdr: false,
            comm,
        })
    };
    for (message, read) in [
        // 2.4
        (
            "Ring 00 : 1 -> 2 [send] via NET/IB/0",
            net(1, 2, false, "IB", 0, false, false, 0),
        ),
        (
            "Ring 00 : 7[7] -> 6[6] via P2P/IPC",
            local(7, 6, Transport::P2p, "IPC", 0),
        ),
        (
            "Ring 01 : 0[0] -> 1[1] via direct shared memory",
            local(0, 1, Transport::Shm, "direct", 0),
        ),
        // 2.5, 2.6
        (
            "Ring 00 : 15[8a000] -> 0[1b000] [receive] via NET/Socket/0",
            net(15, 0, true, "Socket", 0, false, false, 0),
        ),
        // 2.7
        (
            "Channel 00 : 7[bd000] -> 8[1b000] [receive] via NET/IB/0/GDRDMA",
            net(7, 8, true, "IB", 0, false, true, 0),
        ),
        (
            "Channel 03 : 0[1b000] -> 1[1c000] via P2P/direct pointer/read",
            local(0, 1, Transport::P2p, "direct pointer", 0),
        ),
        (
            "Channel 00 : 0[100] -> 1[200] via P2P/indirect/3[400]/read",
            local(0, 1, Transport::P2p, "indirect", 0),
        ),
        // 2.8 with shared buffers, 2.12 with PXN
        (
            "Channel 00 : 7[bd000] -> 8[1b000] [send] via NET/IB/0/GDRDMA/Shared",
            net(7, 8, false, "IB", 0, false, true, 0),
        ),
        (
            "Channel 06/0 : 14[0] -> 6[0] [send] via NET/IBext/5(12)/GDRDMA",
            net(14, 6, false, "IBext", 5, true, true, 0),
        ),
        (
            "Channel 06/1 : 14[0] -> 6[0] [send] via NET/IBext/5(12)/GDRDMA/Shared",
            net(14, 6, false, "IBext", 5, true, true, 0),
        ),
        (
            "Channel 00/1 : 3[3] -> 5[5] via SHM/direct/direct",
            local(3, 5, Transport::Shm, "direct/direct", 0),
        ),
        (
            "Channel 00 : 3[3] -> 5[5] via SHM/direct",
            local(3, 5, Transport::Shm, "direct", 0),
        ),
        // with the communicator
        (
            "Channel 15/0 : 1[1] -> 2[2] via P2P/CUMEM/read comm 0x55d3 nRanks 04",
            local(1, 2, Transport::P2p, "CUMEM", 0x55d3),
        ),
        (
            "Channel 00/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/3/GDRDMA comm 0x1f nRanks 16",
            net(0, 8, false, "AWS Libfabric", 3, false, true, 0x1f),
        ),
        (
            "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/2/GDRDMA(PCI)",
            net(0, 8, false, "IB", 2, false, true, 0),
        ),
        // 2.31, and flags that no release had yet
        (
            "Channel 00/0 : 8[0] -> 1[1] [receive] via NET/IB/0(0)/GDRDMA/flush=Always",
            net(8, 1, true, "IB", 0, true, true, 0),
        ),
        (
            "Channel 00/0 : 8[0] -> 1[1] [receive] via NET/IB/0/flush=None/Novel comm 0x2a nRanks 16",
            net(8, 1, true, "IB", 0, false, false, 0x2a),
        ),
        (
            "Channel 01/0 : 0[0] -> 4[0] via P2P/MNNVL",
            local(0, 4, Transport::P2p, "MNNVL", 0),
        ),
        // what looks alike and is none
        (
            "Channel 00/24 :    0   1   2   3   4   5   6   7",
            ChannelLine::Other,
        ),
        ("Ring 00 : 3 -> 0 -> 1", ChannelLine::Other),
        ("Ring 00 : 1 -> 0 [send]", ChannelLine::Torn),
        (
            "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/2/GD",
            ChannelLine::Torn,
        ),
        (
            "Channel 00/0 : 0[0] -> 8[0] [send] via NET/I",
            ChannelLine::Torn,
        ),
        ("Channel 00/0 : 0[0] -> 8", ChannelLine::Torn),
        ("Channel 0", ChannelLine::Other),
    ] {
        assert_eq!(channel::read(message.as_bytes()), read, "{message}");
    }
    assert_eq!(
        channel::read(b"CollNet 00/0 : 3 [send] via COLLNET/SHARP/0/GDRDMA"),
        ChannelLine::Channel(Channel {
            from: 3,
            to: 3,
            receives: false,
            transport: Transport::CollNet,
            kind: b"SHARP",
            adapter: 0,
            pxn: false,
            gdr: true,
            comm: 0
        })
    );
}

#[test]
fn times_in_their_forms() {
    let seconds =
        |text: &str| clock::last(text.as_bytes()).map(|(time, ..)| (time.seconds, time.year));
    assert_eq!(seconds("[1970-01-02 00:00:01] "), Some((86401.0, true)));
    assert_eq!(
        seconds("2000-03-01T00:00:00.500Z "),
        Some((951_868_800.5, true))
    );
    assert_eq!(seconds("x 1970/01/01 00:01:00 y"), Some((60.0, true)));
    assert_eq!(
        seconds("[rank1]:[E104 00:00:02.25 ProcessGroupNCCL.cpp:1] "),
        Some((259_202.25, false))
    );
    assert_eq!(
        seconds("E0104 00:00:02.25 7 x.cpp:1] "),
        Some((259_202.25, false))
    );
    assert_eq!(seconds("took 00:12:33"), None, "a duration is not a time");
    assert_eq!(seconds("fe80::1:2:3"), None);
    let at = |text: &str| clock::last(text.as_bytes()).unwrap().0;
    assert_eq!(
        at("1970-01-01 00:00:07").since(at("1970-01-01 00:00:05")),
        Some(2.0)
    );
    assert_eq!(
        at("1970-01-01 00:00:07").since(at("I0101 00:00:05.0")),
        None
    );
}

#[test]
fn equal_lines_are_one_with_a_count() {
    let mut text = String::new();
    for channel in 0..16 {
        for rank in 0..8 {
            let next = (rank + 1) % 8;
            text += &format!(
                "n1:{rank}:9 [{rank}] NCCL INFO Channel {channel:02}/0 : {rank}[{rank}] -> {next}[{next}] via P2P/IPC/read\n"
            );
        }
    }
    for rank in 0..8 {
        text += &format!("n1:{rank}:9 [{rank}] NCCL INFO Using network IB\r\n");
        text += &format!(
            "\n[2025-03-04 05:06:0{rank}] n1:{rank}:9 [{rank}] a.cc:1 NCCL WARN Call to connect to 10.0.0.2<4{rank}711> failed : Connection refused\n"
        );
        text += "epoch 3 of 4\n";
    }
    let digest = digest(&text);
    assert_eq!(digest.lines, 8 * 16 + 8 * 4);
    assert_eq!(digest.processes.len(), 8);
    let of = |what: &str| -> Vec<_> {
        digest
            .kept
            .iter()
            .filter(|kept| kept.text.contains(what))
            .collect()
    };
    let channels = of("Channel");
    assert_eq!(channels.len(), 8);
    assert!(channels.iter().all(|kept| kept.count == 16));
    let network = of("Using network");
    assert_eq!(
        (network.len(), network[0].count, network[0].processes),
        (1, 8, 8)
    );
    let refused = of("refused");
    assert_eq!(
        (refused.len(), refused[0].count),
        (1, 8),
        "the port does not make it another"
    );
    assert_eq!(digest.sorts.get("channel"), Some(&128));
}

#[test]
fn colours_progress_bars_and_carriage_returns() {
    let digest = digest(
        "\x1b[32mn1:1:1 [0] NCCL INFO \x1b[1mUsing network IB\x1b[0m\r\n50%|###  |\rn1:2:2 [1] NCCL INFO Using network Socket\r60%|\n",
    );
    let texts: Vec<_> = digest.kept.iter().map(|kept| kept.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "n1:1:1 [0] NCCL INFO Using network IB",
            "n1:2:2 [1] NCCL INFO Using network Socket"
        ]
    );
    assert_eq!(digest.kept[1].line, 2);
    assert_eq!(digest.lines, 2);
}

#[test]
fn tables_do_not_grow_without_end_and_say_what_they_left_out() {
    let limits = Limits {
        lines: 10,
        bytes: 1 << 20,
        events: 3,
        processes: 5,
        text: 0,
    };
    let mut reader = Reader::new(limits);
    for n in 0..100 {
        let text = format!(
            "n{n}:1:1 [0] NCCL INFO Channel 00 : {n}[0] -> 200[0] [send] via NET/Socket/0\n"
        );
        reader.feed(text.as_bytes());
    }
    let digest = reader.finish(None);
    assert_eq!(digest.kept.len(), 10);
    assert_eq!(digest.processes.len(), 5);
    assert_eq!(digest.left_out.get("channel"), Some(&90));
    assert_eq!(
        digest.crowd.iter().map(|crowd| crowd.count).sum::<u64>(),
        90
    );
    assert_eq!(digest.sorts.get("channel"), Some(&100));
    let mut reader = Reader::new(limits);
    for n in 0..100 {
        reader.feed(
            format!("n:1:1 [0] x.cc:1 NCCL WARN Invalid config foo attribute value {n}\n")
                .as_bytes(),
        );
    }
    let digest = reader.finish(None);
    assert_eq!(
        (digest.kept.len(), digest.left_out.get("event")),
        (3, Some(&97))
    );
}

#[test]
fn a_failure_at_the_end_and_a_late_host_find_room() {
    let mut reader = Reader::new(Limits::default());
    for comm in 0..60 {
        for rank in 0..1024 {
            reader.feed(format!("n{}:{rank}:1 [0] NCCL INFO comm 0x{comm} rank {rank} nranks 1024 cudaDev 0 busId 1b000 commId 0x{comm}1 - Init COMPLETE\n", rank / 8).as_bytes());
        }
    }
    reader.feed(b"late:1:1 [0] NCCL INFO Using network Socket\n");
    reader.feed(b"n1:9:1 [0] transport/net_ib.cc:1 NCCL WARN NET/IB : Got completion with error 12, opcode 0, len 0, vendor err 129\n");
    let digest = reader.finish(None);
    assert!(digest.kept.len() < Limits::default().lines);
    assert!(digest.left_out["init"] > 0);
    for text in ["Using network Socket", "vendor err 129"] {
        assert!(
            digest.kept.iter().any(|kept| kept.text.ends_with(text)),
            "{text}"
        );
    }
}

#[test]
fn a_line_without_end_is_read_in_pieces() {
    let mut reader = Reader::new(Limits::default());
    for _ in 0..400 {
        reader.feed(&[b'x'; 1000]);
    }
    reader.feed(
        b" n1:1:1 [0] NCCL INFO Using network IB\nn1:1:1 [0] NCCL INFO cudaDriverVersion 12040\n",
    );
    let digest = reader.finish(None);
    let lines: Vec<_> = digest.kept.iter().map(|kept| kept.line).collect();
    assert_eq!(lines, [1, 2]);
    assert!(digest.kept[0].text.len() < 2000 && digest.kept[0].text.ends_with("Using network IB"));
    assert_eq!((digest.bytes, digest.lines), (400_084, 2));
}

#[test]
fn bytes_that_are_no_text_are_replaced_and_do_not_hide_the_rest() {
    let mut reader = Reader::new(Limits::default());
    reader.feed(b"\xff\xfe\x00 n1:1:1 [0] NCCL INFO NCCL_IB_HCA set to mlx\xc3\x28\n");
    let digest = reader.finish(None);
    assert_eq!(digest.kept.len(), 1);
    assert!(digest.kept[0].text.contains("NCCL_IB_HCA set to mlx"));
}

#[test]
fn a_digest_survives_its_wire_form() {
    let digest = digest(
        "n1:1:1 [0] NCCL INFO Using network IB\nn1:1:1 [0] x.cc:1 NCCL WARN boo\nNCCL version 2.20.5+cuda12.4\n",
    );
    let text = serde_json::to_string(&digest).unwrap();
    assert_eq!(serde_json::from_str::<Digest>(&text).unwrap(), digest);
    assert!(
        text.contains("[1,1,1,1,\"n1:1:1 [0] NCCL INFO Using network IB\"]"),
        "{text}"
    );
}

#[test]
fn every_class_is_a_word_of_the_fact() {
    for word in event_table::words() {
        assert!(
            crate::fact::event::LogClass::from_word(word).is_some(),
            "{word}"
        );
    }
    assert_eq!(
        MessageGroup::ALL.map(|(sort, _)| sort as usize),
        std::array::from_fn(|at| at)
    );
}

#[test]
fn what_a_runtime_wrapped_in_json_is_read() {
    let channel =
        r"n1:100:110 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0/GDRDMA";
    for line in [
        format!(
            r#"{{"log":"{channel}\n","stream":"stdout","time":"2026-11-21T09:02:00.123456789Z"}}"#
        ),
        format!(
            r#"{{"kubernetes":{{"pod":"a,b","n":1}},"message":"\u001b[36m{channel}\u001b[0m","@timestamp":"2026-11-21T09:02:00Z"}}"#
        ),
        format!(r#"{{"textPayload":"{channel}"#),
    ] {
        let read = digest(&format!("{line}\n"));
        assert_eq!(read.sorts.get("channel"), Some(&1), "{line}: {read:?}");
        assert!(read.kept[0].text.ends_with(channel), "{:?}", read.kept);
        let timed = line.contains("2026-11-21T09:02");
        let time = clock::last(read.kept[0].text.as_bytes());
        assert_eq!(time.is_some(), timed, "{:?}", read.kept);
    }
    let read = digest("{\"loss\": 3, \"error\": \"NCCL INFO\n{}\n{\"a\n");
    assert_eq!(read.lines, 3);
}

#[test]
fn a_plugin_may_name_its_function_in_place_of_a_file() {
    for place in [
        "nccl_net_ofi_create_plugin:320",
        "int nccl_ofi_ofiutils_get_providers(const char*, uint32_t, fi_info**, unsigned int*):201",
    ] {
        let line = format!("ip-10-0-3-7:40:50 [0] {place} NCCL WARN NET/OFI No eligible providers");
        let found = prefix::messages(line.as_bytes()).next().unwrap();
        let writer = found.writer.unwrap();
        assert_eq!(
            (writer.host, writer.pid, writer.device),
            (&b"ip-10-0-3-7"[..], 40, Some(0))
        );
        assert_eq!(found.before, b"");
        assert_eq!(found.message, b"NET/OFI No eligible providers");
    }
}
