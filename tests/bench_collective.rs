//! Collectives between processes of this program: over sockets, since those are everywhere.

use std::path::PathBuf;
use std::time::Duration;

use rdma_doctor::bench::collective::{Collective, DataType, Reduction};
use rdma_doctor::bench::plan::{Arm, Backend, Plan, Point, RankPlace, Run};
use rdma_doctor::bench::reply::{Ended, RankReply};
use rdma_doctor::source::Answer;
use rdma_doctor::source::wire::Line;
use rdma_doctor::source::worker::ranks::{Running, run};

const TYPES: [DataType; 5] = [
    DataType::Float32,
    DataType::Float16,
    DataType::Bfloat16,
    DataType::Uint8,
    DataType::Int32,
];

fn point(collective: Collective, bytes: u64) -> Point {
    Point {
        collective,
        bytes,
        dtype: DataType::Float32,
        op: Reduction::Sum,
        in_place: false,
        iterations: 1,
        awaited: false,
        warmups: 1,
        trials: 2,
    }
}

fn plan(ranks: usize, points: Vec<Point>) -> Plan {
    Plan {
        backend: Backend::Tcp,
        library: None,
        ranks: vec![RankPlace::default(); ranks],
        points,
        baseline_points: Vec::new(),
        arms: vec![Arm::baseline()],
        runs: vec![Run { arm: 0, round: 0 }],
        seed: 7,
    }
}

fn running(deadline: f64) -> Running<'static> {
    Running {
        started_ns: 0,
        deadline: Duration::from_secs_f64(deadline),
        base: &[],
        program: Some(PathBuf::from(env!("CARGO_BIN_EXE_rdma-doctor"))),
    }
}

/// The replies of the ranks; the last line is the log's.
fn replies(lines: &[Line]) -> Vec<RankReply> {
    let value = |line: &Line| match line {
        Line::Reply { reply, .. } => match &reply.said {
            Ok(Answer::Value(value)) => serde_json::from_value((**value).clone()),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let (_, ranks) = lines.split_last().expect("the log's line");
    ranks.iter().map(|line| value(line).unwrap()).collect()
}

fn measured(plan: &Plan, deadline: f64) -> Vec<RankReply> {
    replies(&run(&running(deadline), plan, plan.runs[0], |_, _| {}))
}

#[test]
fn each_collective_of_each_type_gives_each_rank_what_is_right() {
    for ranks in [1, 2, 4] {
        let mut points = Vec::new();
        for collective in Collective::ALL {
            for dtype in TYPES {
                for (in_place, op, bytes) in [
                    (false, Reduction::Sum, 4_099 * 4),
                    (true, Reduction::Sum, 8 << 10),
                    (false, Reduction::Max, 40),
                    (true, Reduction::Min, 4),
                ] {
                    let moves = matches!(collective, Collective::AllToAll | Collective::SendRecv);
                    if in_place && moves {
                        continue;
                    }
                    points.push(Point {
                        dtype,
                        op,
                        in_place,
                        iterations: 2,
                        ..point(collective, bytes)
                    });
                }
            }
        }
        let plan = plan(ranks, points);
        for (rank, reply) in measured(&plan, 60.0).into_iter().enumerate() {
            assert_eq!(reply.ended, Ended::Well, "{}", reply.step);
            assert_eq!(reply.points.len(), plan.points.len());
            for point in reply.points {
                assert_eq!(point.wrong, 0, "rank {rank} of {ranks}: {point:?}");
                assert_eq!(point.ms.len(), 2);
                assert!(point.ms.iter().all(|ms| *ms > 0.0));
                let size = point.point.dtype.size();
                let elements = point.point.bytes as usize / size;
                let receives = point.point.collective.shape(elements, ranks).receive as u64;
                let nothing = matches!(
                    point.point.collective,
                    Collective::Reduce | Collective::Gather
                ) && rank != 0;
                assert_eq!(point.checked, if nothing { 0 } else { receives });
            }
        }
    }
}
