//! Numbers worked out by hand.

use super::*;

/// Seven billion parameters in bfloat16 on 4 nodes with 8 GPUs.
fn seven_billion(parallel: Parallel) -> Training {
    Training {
        parameters: 7e9,
        bytes: 2.0,
        parallel,
        tensor_parallel: 1,
        nodes: 4,
        gpus_per_node: 8,
        bucket: None,
        pipeline: None,
    }
}

#[track_caller]
fn near(found: f64, expected: f64) {
    let off = (found - expected).abs() / expected.abs().max(1e-12);
    assert!(off < 1e-6, "{found} is not {expected}");
}

#[test]
fn communication_of_a_step() {
    // 14 GB: an all-reduce sends 2 * 31/32 of it, 27.125 GB; at 100 GB/s.
    let ddp = seven_billion(Parallel::Ddp);
    near(ddp.sent_by_each(), 27.125e9);
    near(ddp.communication(100.0, 0.0), 0.27125);
    for parallel in [Parallel::Zero1, Parallel::Zero2] {
        near(seven_billion(parallel).communication(100.0, 0.0), 0.27125);
    }
    // Three passes of 31/32: 40.6875 GB.
    let zero3 = seven_billion(Parallel::Zero3);
    near(zero3.sent_by_each(), 40.6875e9);
    near(zero3.communication(100.0, 0.0), 0.406875);
}

#[test]
fn one_gpu_has_nobody_to_send_to() {
    let alone = Training {
        nodes: 1,
        gpus_per_node: 1,
        ..seven_billion(Parallel::Zero3)
    };
    assert_eq!(alone.communication(100.0, 1.0), 0.0);
    let whole_node = Training {
        nodes: 1,
        tensor_parallel: 8,
        ..seven_billion(Parallel::Ddp)
    };
    assert_eq!(whole_node.communication(100.0, 1.0), 0.0);
}

#[test]
fn tensor_parallelism_leaves_the_adapters_as_much() {
    let training = Training {
        tensor_parallel: 8,
        ..seven_billion(Parallel::Ddp)
    };
    assert_eq!(training.data_ranks(), 4);
    // Each GPU sends an eighth of the model: 1.75 GB * 2 * 3/4; the eight of a node together what one adapter's worth of busbw takes.
    near(training.sent_by_each(), 2.625e9);
    near(training.communication(100.0, 0.0), 0.21);
    // On one node each GPU sends its half over its own links: 7 GB * 2 * 3/4 / 370 GB/s.
    let one = Training {
        nodes: 1,
        tensor_parallel: 2,
        ..training
    };
    near(one.communication(370.0, 0.0), 7.0 * 1.5 / 370.0);
}

#[test]
fn buckets_cost_their_latency_each() {
    // 14 GB in buckets of 25 MB: 560 of them, 100 us each.
    let training = Training {
        bucket: Some(25e6),
        ..seven_billion(Parallel::Ddp)
    };
    assert_eq!(training.collectives(), 560.0);
    near(training.communication(100.0, 100e-6), 0.27125 + 0.056);
    let training = Training {
        parallel: Parallel::Zero3,
        ..training
    };
    assert_eq!(training.collectives(), 1680.0);
}

/// 4 GB over 16 ranks at 180 GB/s: 7.5 GB are sent in 41.667 ms, of which 1 ms is latency.
#[test]
fn alpha_and_beta_of_a_measurement() {
    let measured = Measured {
        busbw: 180.0,
        size: Some(4e9),
        latency: Some(1e-3),
        nodes: 2,
        ranks: 16,
    };
    let model = AlphaBeta::of(&measured).unwrap();
    near(model.beta, 7.5 / (7.5 / 180.0 - 1e-3));
    near(model.busbw(4e9), 180.0);
    // At the knee half of the bandwidth is reached.
    let knee = model.knee().unwrap();
    near(knee, 1e-3 * model.beta * 1e9 / 1.875);
    near(model.busbw(knee), model.beta / 2.0);
    // Without a latency, and with one that is longer than the whole.
    let plain = Measured {
        latency: None,
        ..measured
    };
    let plain = AlphaBeta::of(&plain).unwrap();
    assert_eq!((plain.alpha, plain.beta, plain.knee()), (0.0, 180.0, None));
    let odd = Measured {
        latency: Some(0.05),
        ..measured
    };
    assert_eq!(AlphaBeta::of(&odd), None);
}

#[test]
fn latency_grows_with_a_ring_and_creeps_with_a_tree() {
    // From 16 ranks to 512: 511/15, and 9/4.
    near(Growth::Ring.factor(16, 512), 511.0 / 15.0);
    near(Growth::Tree.factor(16, 512), 2.25);
    near(Growth::Ring.factor(1, 512), 1.0);
    let model = AlphaBeta {
        alpha: 100e-6,
        beta: 180.0,
        ranks: 16,
    };
    let grown = model.with_ranks(512, Growth::Tree);
    near(grown.alpha, 225e-6);
    near(grown.beta, 165.6);
    assert_eq!(grown.ranks, 512);
    // 25 MB over 512 ranks in a ring: 3.4067 ms of latency and 0.2772 ms of data.
    let ring = model.with_ranks(512, Growth::Ring);
    near(
        ring.time(25e6),
        100e-6 * 511.0 / 15.0 + 25e6 * 2.0 * 511.0 / 512.0 / 180e9,
    );
}

#[test]
fn classes_are_for_zero3_on_many_gpus() {
    let training = Training {
        nodes: 8,
        ..seven_billion(Parallel::Zero3)
    };
    for (gigabits, class) in [
        (25.0, Class::NotEnough),
        (100.0, Class::NotEnough),
        (199.9, Class::NotEnough),
        (200.0, Class::Acceptable),
        (400.0, Class::Acceptable),
        (799.0, Class::Acceptable),
        (800.0, Class::Ideal),
        (3200.0, Class::Ideal),
    ] {
        assert_eq!(Class::of(&training, gigabits), Some(class), "{gigabits}");
    }
    assert_eq!(Class::of(&seven_billion(Parallel::Zero3), 100.0), None);
    let ddp = Training {
        parallel: Parallel::Ddp,
        ..training
    };
    assert_eq!(Class::of(&ddp, 100.0), None);
}

#[test]
fn what_explains_a_slow_step() {
    let step = |communication, compute| Step {
        whole: 2.0,
        communication,
        compute,
    };
    for (step, single, blame, share) in [
        // One second too long, of which 0.9 communicate and 0.9 are seen.
        (step(0.9, Some(1.1)), 1.0, Blame::Network, 0.9),
        // As much is communicated, and hidden but for 0.3.
        (step(0.9, Some(1.7)), 1.0, Blame::Elsewhere, 0.3),
        // How much is hidden nobody says.
        (step(0.9, None), 1.0, Blame::NetworkPossible, 0.9),
        (step(0.5, None), 1.0, Blame::Elsewhere, 0.5),
        (step(0.7, Some(1.0)), 1.0, Blame::Network, 0.7),
        (step(0.9, Some(1.1)), 2.0, Blame::Nothing, 0.0),
        (step(0.9, Some(1.1)), 2.5, Blame::Nothing, 0.0),
        // More computation than the step has: nothing is seen.
        (step(0.9, Some(2.1)), 1.0, Blame::Elsewhere, 0.0),
    ] {
        let (found, part) = Blame::of(step, single);
        assert_eq!(found, blame, "{step:?}");
        assert!((part - share).abs() < 1e-9, "{step:?}: {part}");
    }
}

#[test]
fn assumptions_are_said() {
    let plain = seven_billion(Parallel::Zero3).assumptions();
    assert!(plain.iter().any(|said| said.contains("two all-gathers")));
    assert!(!plain.iter().any(|said| said.contains("activations")));
    let divided = Training {
        tensor_parallel: 8,
        bucket: Some(25e6),
        ..seven_billion(Parallel::Ddp)
    };
    let divided = divided.assumptions();
    assert!(divided.iter().any(|said| said.contains("activations")));
    assert!(divided.iter().any(|said| said.contains("25.0 MB")));
}

/// BLOOM: 176 billion parameters in bfloat16, 48 nodes with 8 GPUs, 4 GPUs share a layer, 12 stages, 8 replicas of 64 micro-batches: 2 sequences of 2048 tokens
/// with 14336 numbers of two bytes are 117.440512 MB.
#[test]
fn stages_send_activations_and_hold_a_part_of_the_layers() {
    let bloom = Training {
        parameters: 176e9,
        bytes: 2.0,
        parallel: Parallel::Zero1,
        tensor_parallel: 4,
        nodes: 48,
        gpus_per_node: 8,
        bucket: None,
        pipeline: Some(Pipeline {
            stages: 12,
            micro_batches: 64,
            activations: 117_440_512.0,
        }),
    };
    assert_eq!((bloom.gpus(), bloom.data_ranks()), (384, 8));
    near(bloom.part(), 352e9 / 48.0);
    // Forward and backward, a fourth of each: 2 * 64 * 117.440512 MB / 4.
    near(bloom.sent_to_stages(), 3_758_096_384.0);
    // Eight GPUs of a node over 12.5 GB/s.
    near(bloom.between_stages(12.5), 2.405181685760);
    // Collectives of a twelfth of the model: 352 GB / 12 * 2 * 7/8 at 12.5 GB/s.
    near(bloom.communication(12.5, 0.0), 4.106666666667);
    near(bloom.sent_by_each(), 352e9 / 48.0 * 2.0 * 7.0 / 8.0);
    near(bloom.pipeline.unwrap().bubble(), 11.0 / 75.0);
    // On one node each GPU has links of its own, and one stage sends nothing.
    let one_node = Training { nodes: 1, ..bloom };
    near(one_node.between_stages(100.0), 0.03758096384);
    let one_stage = bloom.pipeline.map(|pipeline| Pipeline {
        stages: 1,
        ..pipeline
    });
    let alone = Training {
        pipeline: one_stage,
        ..bloom
    };
    assert_eq!((alone.sent_to_stages(), alone.data_ranks()), (0.0, 96));
}
