//! Answers by hand, and numbers that cannot be.

use super::*;

/// Seven billion parameters in bfloat16, ZeRO-3 on 8 nodes of 8 GPUs, at 100 GB/s measured there.
fn question() -> Question {
    Question {
        training: Training {
            parameters: 7e9,
            bytes: 2.0,
            parallel: Parallel::Zero3,
            tensor_parallel: 1,
            nodes: 8,
            gpus_per_node: 8,
            bucket: None,
            pipeline: None,
        },
        dtype: "bf16",
        measured: Measured {
            busbw: 100.0,
            size: None,
            latency: None,
            nodes: 8,
            ranks: 64,
        },
        source: Source::Given,
        network: None,
        step: None,
        compute: None,
        single_node: None,
    }
}

#[track_caller]
fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
}

/// 14 GB * 3 * 63/64 = 41.34375 GB in 0.4134375 s.
#[test]
fn what_is_measured_where_it_is_asked_needs_no_growth() {
    let advice = Advice::of(&question()).unwrap();
    near(advice.communication.sent_by_each, 41.34375e9);
    near(advice.communication.seconds, 0.4134375);
    assert_eq!(advice.communication.algorithm, None);
    assert!(advice.growth.is_empty());
    let class = advice.class.unwrap();
    assert_eq!((class.network, class.class), (800_000_000_000, "ideal"));
    assert!(advice.bandwidth.measured);
}

/// A gather has half of the latency of an all-reduce: 14 GB in layers of 400 MB are 35 of each of three kinds; over 64 ranks in place of 16
/// a latency of 40 us is 168 us.
#[test]
fn a_ring_on_more_ranks_has_more_latency() {
    let mut question = question();
    question.measured.ranks = 16;
    question.measured.nodes = 2;
    question.measured.latency = Some(40e-6);
    question.training.bucket = Some(400e6);
    let advice = Advice::of(&question).unwrap();
    let [ring] = &advice.growth[..] else {
        panic!("gathers have rings alone: {:?}", advice.growth);
    };
    assert_eq!((ring.algorithm, ring.ranks), ("ring", 64));
    near(ring.latency.unwrap(), 168e-6);
    near(ring.communication, 0.4134375 + 105.0 * 84e-6);
    near(advice.communication.seconds, ring.communication);
    assert!(
        advice
            .assumptions
            .iter()
            .any(|said| said.contains("NCCL_ALGO=Ring"))
    );
}

/// DDP in buckets of 25 MB: 560 collectives; the tree's latency is 1.5 times that of 16 ranks, and 0.92 of the bandwidth is left.
#[test]
fn of_ring_and_tree_the_faster_counts() {
    let mut question = question();
    question.training.parallel = Parallel::Ddp;
    question.training.bucket = Some(25e6);
    question.measured.ranks = 16;
    question.measured.nodes = 2;
    question.measured.latency = Some(40e-6);
    let advice = Advice::of(&question).unwrap();
    let [ring, tree] = &advice.growth[..] else {
        panic!("a ring and a tree: {:?}", advice.growth);
    };
    let data = 14.0 * 2.0 * 63.0 / 64.0 / 100.0;
    near(ring.communication, data + 560.0 * 168e-6);
    near(tree.communication, data / 0.92 + 560.0 * 60e-6);
    assert_eq!(advice.communication.algorithm, Some("tree"));
    assert!(advice.class.is_none());
}

#[test]
fn the_network_of_the_node_decides_the_class() {
    let mut question = question();
    question.network = Some(392.0);
    let class = Advice::of(&question).unwrap().class.unwrap();
    assert_eq!(
        (class.network, class.class),
        (392_000_000_000, "acceptable")
    );
}

/// A step of 1 s that computes for 0.7 s, of 0.6 s on one node: 0.3 of the 0.4134375 s are in sight, three quarters of the 0.4 s.
#[test]
fn a_slow_step_is_divided_and_explained() {
    let mut question = question();
    question.step = Some(1.0);
    question.compute = Some(0.7);
    question.single_node = Some(0.6);
    let advice = Advice::of(&question).unwrap();
    let step = advice.step.unwrap();
    assert_eq!(step.communication_share, 41.3);
    near(step.exposed, 0.3);
    near(step.hidden.unwrap(), 0.1134375);
    assert!(!step.contradicts);
    let slowdown = advice.slowdown.unwrap();
    assert_eq!((slowdown.share, slowdown.explained_by), (75.0, "network"));
    let hide = advice.hide.unwrap();
    assert_eq!(hide.share, 59.1);
}

#[test]
fn a_step_shorter_than_its_communication_is_said() {
    let mut question = question();
    question.step = Some(0.3);
    let step = Advice::of(&question).unwrap().step.unwrap();
    assert!(step.contradicts);
    assert_eq!(step.hidden, None);
}

#[test]
fn numbers_that_contradict_each_other_are_refused() {
    let mut odd = question();
    odd.step = Some(1.0);
    odd.compute = Some(1.5);
    let compute = InputError::Compute {
        step: 1.0,
        compute: 1.5,
    };
    assert_eq!(Advice::of(&odd).unwrap_err(), compute);
    let mut odd = question();
    odd.measured.nodes = 1;
    let other = InputError::OtherNetwork {
        measured: 1,
        asked: 8,
    };
    assert_eq!(Advice::of(&odd).unwrap_err(), other);
    let mut odd = question();
    odd.measured.size = Some(1e6);
    odd.measured.latency = Some(1.0);
    assert_eq!(Advice::of(&odd).unwrap_err(), InputError::Latency(1.0));
}

#[test]
fn a_ceiling_is_called_one() {
    let mut question = question();
    question.source = Source::Ceiling("the ceiling of n, bound by nic (mlx5_0:1)".into());
    let advice = Advice::of(&question).unwrap();
    assert!(!advice.bandwidth.measured);
    let said = |words| advice.assumptions.iter().any(|said| said.contains(words));
    assert!(said("nothing was measured"));
    let mut page = Vec::new();
    text::write(&mut page, &advice, 100).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(
        page.contains("at most: ") && page.contains("not measured"),
        "{page}"
    );
}
