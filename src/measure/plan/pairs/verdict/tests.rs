use super::super::{Flow, Gpu, Member, Memory, NAME, Plan, Rail, Reach, Silent, Why};
use super::*;
use crate::fact::Limits;
use crate::measure::plan::reply;
use crate::measure::plan::run::Backend;
use crate::source::recording::Recording;
use crate::source::wire::Header;

fn results(nodes: usize, rails: usize) -> Results {
    let rail = |node: usize, rail: usize| Rail {
        interface: format!("eth{rail}"),
        address: format!("10.0.{rail}.{}", node + 1),
        mtu: 9000,
        speed: None,
        link: None,
        device: Some(format!("mlx5_{rail}/1")),
        port: None,
        gid: None,
        gpu: None,
    };
    let member = |node: usize| Member {
        host: format!("n{}", node + 1),
        rails: (0..rails).map(|r| rail(node, r)).collect(),
    };
    let mut results = Results::new(Plan::of((0..nodes).map(member).collect(), 200));
    for way in results.ways() {
        let flow = Flow {
            bytes: 2_500_000_000 + way.from.0 as u64 * 10_000_000,
            micros: 200_000,
            segments: Some(10_000),
            again: Some(3),
            round_trip_ns: Some(20_000 + way.to.0 as u64 * 500),
            ..Flow::default()
        };
        results.first.insert(way, flow);
        results.reach.entry(way.from.0).or_default().push(Reach {
            to: way.to.0,
            rail: way.from.1,
            tcp: Ok(90),
            packet: Some(9000),
        });
    }
    for node in 0..nodes {
        results
            .counters
            .insert(node, vec![Default::default(); rails]);
    }
    results
}

fn reach(results: &mut Results, way: PairDirection) -> &mut Reach {
    let all = results.reach.get_mut(&way.from.0).unwrap();
    let is = |reach: &&mut Reach| reach.to == way.to.0 && reach.rail == way.from.1;
    all.iter_mut().find(is).unwrap()
}

fn said(results: &Results) -> Vec<String> {
    suspects(results, &Limits::default())
        .into_iter()
        .map(|s| s.what.to_string())
        .collect()
}

#[test]
fn where_all_are_equal_nobody_is_accused() {
    let results = results(4, 2);
    assert_eq!(said(&results), [""; 0]);
    assert_eq!(
        sentence(&results, &[]),
        "all 4 nodes reach each other over 2 rails, without an outlier: 101 Gb/s one way (100 Gb/s to 101 Gb/s)"
    );
}

#[test]
fn an_adapter_that_loses_what_it_sends_is_named_with_its_direction() {
    let mut results = results(4, 2);
    for way in results.ways().into_iter().filter(|w| w.from == (1, 1)) {
        let flow = results.first.get_mut(&way).unwrap();
        // One of its ways loses less than the limit by chance.
        flow.again = Some(if way.to.0 == 2 { 20 } else { 230 });
        flow.bytes /= 10;
    }
    let counters = results.counters.get_mut(&1).unwrap();
    counters[1].insert("tx_dropped".into(), 480);
    let found = suspects(&results, &Limits::default());
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        found[0].what,
        "n2/eth1 loses packets that it sends: 1.6 % of the segments (480 of 30000) to n1, n3 and n4 were retransmitted"
    );
    assert_eq!(found[0].counted, ["n2/eth1 tx_dropped +480"]);
    assert_eq!(found[0].blame, Some(Blame::Adapter((1, 1))));
}

#[test]
fn a_slow_node_a_short_packet_and_a_filter_are_told_apart() {
    let mut results = results(5, 1);
    for way in results.ways() {
        let flow = results.first.get_mut(&way).unwrap();
        if way.from.0 == 3 {
            flow.bytes /= 8;
        }
        if way.to.0 == 2 {
            reach(&mut results, way).packet = Some(1500);
        }
        if way.to.0 == 4 {
            reach(&mut results, way).tcp = Err("no answer".into());
            *results.first.get_mut(&way).unwrap() = Flow::failed("not reached");
        }
    }
    results.plan.nodes[2].rails[0].mtu = 1500;
    for reach in results.reach.get_mut(&2).unwrap() {
        reach.packet = Some(1500);
    }
    assert_eq!(
        said(&results),
        [
            "n5 cannot be reached from n1, n2, n3 and n4 (no answer); it can connect to them",
            "n3 receives packets of 1500 bytes at most, of the 9000 that n1, n2 and n4 send; its own MTU is 1500",
            "n4 is slow: 12.7 Gb/s at most to n1, n2 and n3, where equals send 102 Gb/s",
        ]
    );
}

#[test]
fn a_weak_sign_alone_accuses_nobody() {
    let mut results = results(4, 2);
    for way in results.ways().into_iter().filter(|w| w.from == (1, 1)) {
        results.first.get_mut(&way).unwrap().again = Some(230);
    }
    // The receiver of one that loses has another way with a loss above the weaker limit, and a third that is a quarter slower.
    let ends = |from, to| PairDirection {
        from: (from, 1),
        to: (to, 1),
    };
    results.first.get_mut(&ends(2, 3)).unwrap().again = Some(20);
    let slower = results.first.get_mut(&ends(0, 3)).unwrap();
    slower.bytes = slower.bytes / 4 * 3;
    let found = suspects(&results, &Limits::default());
    let accused: Vec<_> = found.iter().map(|one| (one.problem, one.blame)).collect();
    let sender = Some(Blame::Adapter((1, 1)));
    assert_eq!(accused, [(SuspectProblem::Loss, sender)], "{found:?}");
}

#[test]
fn one_pair_one_rail_and_one_far_node() {
    let mut pair = results(4, 2);
    let way = PairDirection {
        from: (0, 1),
        to: (2, 1),
    };
    for way in [way, way.back()] {
        pair.first.get_mut(&way).unwrap().bytes /= 4;
    }
    assert_eq!(
        said(&pair),
        ["n1/eth1 and n3/eth1: 25.2 Gb/s at most, where equals carry 101 Gb/s"]
    );
    let mut rail = results(4, 3);
    for way in rail.ways().into_iter().filter(|way| way.from.1 == 1) {
        rail.first.get_mut(&way).unwrap().bytes /= 4;
    }
    assert_eq!(
        said(&rail),
        ["rail 1 (eth1): 25.3 Gb/s at most, where equals carry 101 Gb/s"]
    );
    let mut far = results(4, 1);
    for way in far.ways() {
        if way.from.0 == 1 || way.to.0 == 1 {
            far.first.get_mut(&way).unwrap().round_trip_ns = Some(900_000);
        }
    }
    assert_eq!(
        said(&far),
        ["n2 is far: 900 µs at least to n1, n3 and n4 and back, where equals take 21 µs"]
    );
}

#[test]
fn the_second_measurement_counts_and_who_went_away_is_named() {
    let mut results = results(3, 1);
    let way = PairDirection {
        from: (0, 0),
        to: (1, 0),
    };
    let good = results.first[&way].clone();
    results.first.get_mut(&way).unwrap().bytes /= 10;
    assert_eq!(suspects(&results, &Limits::default()).len(), 1);
    results.second.insert(way, good);
    assert_eq!(suspects(&results, &Limits::default()), []);
    results.plan.silent.push(Silent {
        host: "n3".into(),
        why: "its connection closed".into(),
    });
    for way in results.ways().into_iter().filter(|way| way.to.0 == 2) {
        reach(&mut results, way).tcp = Err("refused".into());
    }
    assert_eq!(
        said(&results),
        ["n3 did not respond: its connection closed"]
    );
}

#[test]
fn two_nodes_are_a_pair() {
    let mut results = results(2, 1);
    let way = PairDirection {
        from: (1, 0),
        to: (0, 0),
    };
    reach(&mut results, way).tcp = Err("refused".into());
    assert_eq!(
        said(&results),
        ["n2 to n1: no connection (refused), the other way round there is one"]
    );
}

/// The same by RDMA writes, across rails too.
fn by_rdma(nodes: usize, rails: usize) -> Results {
    let mut results = results(nodes, rails);
    results.plan.backend = Backend::Verbs;
    results.plan.across = true;
    for flow in results.first.values_mut() {
        flow.again = Some(0);
    }
    let good = results.first.values().next().cloned().unwrap();
    for way in results.ways_across() {
        results.across.insert(way, good.clone());
    }
    results
}

/// A pair that is cut one way: what is sent that way does not arrive, and what comes back is not acknowledged.
fn cut(results: &mut Results, way: PairDirection) {
    for (way, arrived) in [(way, false), (way.back(), true)] {
        let flow = Flow {
            arrived: Some(arrived),
            ..Flow::failed("transport retry counter exceeded")
        };
        match way.from.1 == way.to.1 {
            true => results.first.insert(way, flow),
            false => results.across.insert(way, flow),
        };
    }
}

#[test]
fn loss_that_rdma_hides_is_named_by_what_both_ports_counted() {
    let mut results = by_rdma(4, 2);
    assert_eq!(said(&results), [""; 0]);
    for way in results.ways().into_iter().filter(|w| w.from == (1, 1)) {
        let flow = results.first.get_mut(&way).unwrap();
        // It carries as much as others.
        flow.again = Some(if way.to.0 == 2 { 1 } else { 4 });
        flow.sender = [("packet_seq_err".into(), flow.again.unwrap())].into();
        flow.receiver = [("out_of_sequence".into(), 7)].into();
    }
    let counters = results.counters.get_mut(&1).unwrap();
    counters[1] = [("packet_seq_err".into(), 9), ("symbol_error".into(), 2)].into();
    let found = suspects(&results, &Limits::default());
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        found[0].what,
        "n2/mlx5_1/1 loses packets that it sends: 0.030 % of the packets (9 of 30000) to n1, n3 and n4 were retransmitted"
    );
    assert_eq!(
        found[0].counted,
        [
            "n1/mlx5_1/1 out_of_sequence +7 while receiving",
            "n2/mlx5_1/1 packet_seq_err +9 while sending",
            "n3/mlx5_1/1 out_of_sequence +7 while receiving",
            "n4/mlx5_1/1 out_of_sequence +7 while receiving",
            "n2/mlx5_1/1 symbol_error +2",
        ]
    );
    // Fewer than that are no evidence by themselves.
    for flow in results.first.values_mut() {
        flow.again = flow.again.map(|again| again.min(3));
    }
    assert_eq!(said(&results), [""; 0]);
}

#[test]
fn where_rdma_fails_its_direction_and_the_status_are_named() {
    let mut results = by_rdma(4, 2);
    for way in results.ways().into_iter().filter(|way| way.to == (3, 0)) {
        cut(&mut results, way);
    }
    assert_eq!(
        said(&results),
        [
            "n4/mlx5_0/1 receives no RDMA writes of n1, n2 and n3 (transport retry counter exceeded), and its own arrive there; over TCP they reach each other"
        ]
    );
    let mut results = by_rdma(2, 1);
    let way = PairDirection {
        from: (1, 0),
        to: (0, 0),
    };
    cut(&mut results, way);
    assert_eq!(
        said(&results),
        [
            "n2 to n1: RDMA writes do not arrive (transport retry counter exceeded), those the other way round do; over TCP they reach each other"
        ]
    );
    // What was not tried is none that is well, and what failed for another reason is no evidence.
    let mut results = by_rdma(4, 1);
    for way in results.ways() {
        if way.from.0 == 2 || way.to.0 == 2 {
            let flow = match [way.from.0, way.to.0].contains(&3) {
                true => Flow::failed("not tried: one of its ends failed with others already"),
                false => Flow {
                    arrived: Some(false),
                    ..Flow::failed("remote access error")
                },
            };
            results.first.insert(way, flow);
        }
    }
    assert_eq!(
        said(&results),
        [
            "n3 and n1 and n2 do not reach each other by RDMA (remote access error); over TCP they reach each other"
        ]
    );
    let mut results = by_rdma(3, 1);
    results
        .first
        .insert(way, Flow::failed("the other end is gone"));
    assert_eq!(said(&results), [""; 0]);
    // TCP does not reach it either: that is told, and RDMA was not tried.
    let mut results = by_rdma(4, 1);
    for way in results.ways().into_iter().filter(|way| way.to.0 == 1) {
        reach(&mut results, way).tcp = Err("no answer".into());
        results.first.insert(way, Flow::failed("not reached"));
        results
            .first
            .insert(way.back(), Flow::failed("not reached"));
    }
    let problems: Vec<_> = suspects(&results, &Limits::default())
        .iter()
        .map(|s| s.problem)
        .collect();
    assert_eq!(problems, [SuspectProblem::Unreachable]);
}

#[test]
fn rails_that_do_not_reach_each_other_are_worth_a_note() {
    let mut results = by_rdma(3, 2);
    assert_eq!(said(&results), [""; 0]);
    for way in results.ways_across() {
        cut(&mut results, way);
        let back = way.back();
        cut(&mut results, back);
    }
    let found = suspects(&results, &Limits::default());
    let problems: Vec<_> = found.iter().map(|s| s.problem).collect();
    assert_eq!(problems, [SuspectProblem::RailsApart]);
    assert_eq!(
        found[0].what,
        "no rail reaches another, and each works by itself, as where each has a network of its own (transport retry counter exceeded)"
    );
    assert!(
        sentence(&results, &found)
            .to_string()
            .starts_with("all 3 nodes reach each other over 2 rails, without an outlier")
    );
    // An adapter that works with nobody says nothing of rails.
    let mut results = by_rdma(3, 2);
    for way in results.ways().into_iter().filter(|way| way.to == (2, 1)) {
        cut(&mut results, way);
    }
    for way in results.ways_across() {
        if [way.from, way.to].contains(&(2, 1)) {
            cut(&mut results, way);
        }
    }
    let problems: Vec<_> = suspects(&results, &Limits::default())
        .iter()
        .map(|s| s.problem)
        .collect();
    assert_eq!(problems, [SuspectProblem::RdmaFails]);
    // Two of three rails.
    let mut results = by_rdma(2, 3);
    for way in results.ways_across() {
        if way.from.1 + way.to.1 == 1 {
            results.across.insert(way, Flow::failed("no route"));
        }
    }
    assert_eq!(
        said(&results),
        ["rails 0 and 1 do not reach each other, and each works by itself (no route)"]
    );
}

#[test]
fn all_of_it_replays() {
    use crate::source::recording::Recording;
    use crate::source::wire::Header;
    let mut results = by_rdma(3, 2);
    results.plan.why = Some(Why::Without(Silent {
        host: "n2".into(),
        why: "no library".into(),
    }));
    results.plan.again.push(((0, 0), (1, 0)));
    results.complete();
    let way = results.ways()[0];
    let flow = results.first.get_mut(&way).unwrap();
    flow.sender = [("packet_seq_err".into(), 5)].into();
    cut(&mut results, way.back());
    let mut recording = Recording::new(Header::default());
    for line in results.lines(7) {
        recording.add(line);
    }
    let read = Results::read(&recording.of(super::super::NAME)).unwrap();
    assert_eq!(read, results);
}

/// Four nodes with two rails, measured in both memories, whose GPUs are as fast as the host's.
fn with_gpus() -> Results {
    let mut results = results(4, 2);
    results.plan.backend = Backend::Verbs;
    results.plan.memory = vec![Memory::Host, Memory::Gpu];
    for node in &mut results.plan.nodes {
        for (at, rail) in node.rails.iter_mut().enumerate() {
            rail.gpu = Some(Gpu {
                pci: Some(format!("0000:{at}a:00.0")),
                way: Some(reply::GpuMemoryAccess::DmaBuf),
                why: None,
                by_facts: Some("dma-buf".into()),
            });
        }
    }
    for flow in results.first.values_mut() {
        flow.again = Some(0);
    }
    results.on_gpus = results.first.clone();
    results
}

fn gpu(results: &mut Results, (node, rail): End) -> &mut Gpu {
    results.plan.nodes[node].rails[rail].gpu.as_mut().unwrap()
}

#[test]
fn gpus_that_are_as_fast_as_the_host_accuse_nobody() {
    let results = with_gpus();
    assert_eq!(said(&results), [""; 0]);
    let sentence = sentence(&results, &[]);
    assert!(
        sentence
            .to_string()
            .ends_with("101 Gb/s); from GPU to GPU 101 Gb/s one way (100 Gb/s to 101 Gb/s)"),
        "{sentence}"
    );
    // A node that is slow in both memories is slow, and its GPU is not to blame.
    let mut results = with_gpus();
    for way in results.ways().into_iter().filter(|w| w.from.0 == 1) {
        for flows in [&mut results.first, &mut results.on_gpus] {
            flows.get_mut(&way).unwrap().bytes /= 10;
        }
    }
    let all = suspects(&results, &Limits::default());
    let problems: Vec<SuspectProblem> = all.iter().map(|one| one.problem).collect();
    assert_eq!(problems, [SuspectProblem::Slow]);
}

#[test]
fn an_adapter_far_from_its_gpu_is_named_with_the_gpu() {
    let mut results = with_gpus();
    for way in results.ways().into_iter().filter(|w| w.to == (2, 1)) {
        results.on_gpus.get_mut(&way).unwrap().bytes /= 4;
    }
    assert_eq!(
        said(&results),
        [
            "n3/mlx5_1/1 (GPU 0000:1a:00.0) is slow from GPU to GPU: 25.3 Gb/s at most from n1, n2 and n4, where the same ports carry 101 Gb/s in the host's memory"
        ]
    );
    assert_eq!(
        suspects(&results, &Limits::default())[0].problem,
        SuspectProblem::GpuSlow
    );
    // Alone it was as fast as the host.
    results.on_gpus_again = results.first.clone();
    assert_eq!(said(&results), [""; 0]);
}

#[test]
fn memory_that_is_refused_names_node_rail_and_obstacle() {
    let mut results = with_gpus();
    for rail in 0..2 {
        let gpu = gpu(&mut results, (1, rail));
        (gpu.way, gpu.why) = (None, Some("ibv_reg_dmabuf_mr: no".into()));
    }
    let none = Gpu::none(None, "CUDA shows no GPU");
    *gpu(&mut results, (3, 1)) = none;
    for way in results.ways() {
        if [way.from, way.to].iter().any(|e| e.0 == 1 || *e == (3, 1)) {
            let flow = Flow::failed("not tried");
            results.on_gpus.insert(way, flow);
        }
    }
    let all = suspects(&results, &Limits::default());
    let told: Vec<_> = all
        .iter()
        .map(|one| (one.problem, one.name.as_str(), one.what.to_string()))
        .collect();
    let told: Vec<_> = told
        .iter()
        .map(|(p, name, what)| (*p, *name, what.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            (
                SuspectProblem::GpuFails,
                "n2",
                "n2: mlx5_0/1 (GPU 0000:0a:00.0), mlx5_1/1 (GPU 0000:1a:00.0) cannot register GPU memory, though the node has GPUDirect RDMA by dma-buf: ibv_reg_dmabuf_mr: no"
            ),
            (
                SuspectProblem::GpuNone,
                "n4/mlx5_1/1",
                "n4: mlx5_1/1 cannot register GPU memory: CUDA shows no GPU"
            ),
        ]
    );
}

#[test]
fn writes_that_come_wrong_in_gpus_accuse_the_one_they_have_in_common() {
    let mut results = with_gpus();
    let broken = || Flow {
        arrived: Some(false),
        ..Flow::failed("131072 of 131072 bytes came wrong")
    };
    for way in results.ways().into_iter().filter(|w| w.to == (0, 0)) {
        results.on_gpus.insert(way, broken());
    }
    assert_eq!(
        said(&results),
        [
            "n1/mlx5_0/1 (GPU 0000:0a:00.0): RDMA writes from GPU to GPU from n2, n3 and n4 fail (131072 of 131072 bytes came wrong), those in the host's memory arrive"
        ]
    );
    // Where the host's memory fails too, it is the network.
    for way in results.ways().into_iter().filter(|w| w.to == (0, 0)) {
        results.first.insert(way, broken());
    }
    let all = suspects(&results, &Limits::default());
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].problem, SuspectProblem::RdmaFails);
}

#[test]
fn from_gpu_to_gpu_alone_pairs_are_compared_with_each_other() {
    let mut results = with_gpus();
    results.plan.memory = vec![Memory::Gpu];
    results.on_gpus.clear();
    for way in results.ways().into_iter().filter(|w| w.from.0 == 2) {
        results.first.get_mut(&way).unwrap().bytes /= 10;
    }
    assert_eq!(
        suspects(&results, &Limits::default())[0].problem,
        SuspectProblem::Slow
    );
    assert!(
        sentence(&results, &[])
            .to_string()
            .contains("over 2 rails from GPU to GPU, without")
    );
    // The recording has it by its memory.
    let mut recording = Recording::new(Header::default());
    for line in results.lines(0) {
        recording.add(line);
    }
    assert_eq!(Results::read(&recording.of(NAME)).as_ref(), Ok(&results));
    let both = with_gpus();
    let mut recording = Recording::new(Header::default());
    for line in both.lines(0) {
        recording.add(line);
    }
    assert_eq!(Results::read(&recording.of(NAME)).as_ref(), Ok(&both));
}

/// What one reply after the other being missing leaves of the accusations of a problem.
fn without_each(
    results: &Results,
    problem: SuspectProblem,
    check: impl Fn(&Results, Vec<Suspect>),
) {
    let lines = results.lines(0);
    for lost in 1..lines.len() {
        let mut recording = Recording::new(Header::default());
        for (at, line) in lines.iter().enumerate() {
            if at != lost {
                recording.add(line.clone());
            }
        }
        let (left, refused) = Results::read_known(&recording.of(NAME)).unwrap();
        assert!(refused.is_some());
        assert!(Results::read(&recording.of(NAME)).is_err());
        let found = suspects(&left, &Limits::default());
        check(
            &left,
            found.into_iter().filter(|s| s.problem == problem).collect(),
        );
    }
}

#[test]
fn a_missing_reply_erases_no_accusation_that_others_prove_and_accuses_nobody_else() {
    let mut results = by_rdma(4, 1);
    for from in 0..3 {
        cut(
            &mut results,
            PairDirection {
                from: (from, 0),
                to: (3, 0),
            },
        );
    }
    let whole = suspects(&results, &Limits::default());
    assert_eq!(whole.len(), 1);
    without_each(&results, SuspectProblem::RdmaFails, |_, found| {
        assert!(!found.is_empty());
        for suspect in found {
            match suspect.blame {
                Some(Blame::Node(node) | Blame::Adapter((node, _))) => assert_eq!(node, 3),
                Some(Blame::Pair(a, b)) => assert!(a.0 == 3 || b.0 == 3),
                other => panic!("{other:?}"),
            }
        }
    });
    let mut results = super::tests::results(4, 1);
    for from in 0..3 {
        let way = PairDirection {
            from: (from, 0),
            to: (3, 0),
        };
        reach(&mut results, way).tcp = Err("timed out".into());
    }
    without_each(&results, SuspectProblem::Unreachable, |_, found| {
        assert!(!found.is_empty());
    });
}

#[test]
fn a_missing_reply_of_a_network_that_is_well_accuses_nobody() {
    without_each(&by_rdma(4, 2), SuspectProblem::RdmaFails, |left, found| {
        assert!(found.is_empty());
        assert_eq!(suspects(left, &Limits::default()), []);
    });
}
