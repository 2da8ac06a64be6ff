//! A node of a large network is judged as well as any: ten thousand routes hide nothing and take nothing away.

use std::net::Ipv4Addr;
use std::path::Path;

use rdma_doctor::check::Catalogue;
use rdma_doctor::cli::many;
use rdma_doctor::report::{Policy, Report};
use rdma_doctor::source::recording::Recording;
use rdma_doctor::source::wire::Line;
use rdma_doctor::source::{Answer, Question};

/// A route of the main table to 256 addresses from this one on, by a gateway on the interface of this number.
fn route(to: Ipv4Addr, interface: u32) -> Vec<u8> {
    let mut message = [52u32.to_le_bytes(), [24, 0, 2, 0], [1, 0, 0, 0], [0; 4]].concat();
    // AF_INET, the length of the prefix, table 254, RTPROT_BOOT, RT_SCOPE_UNIVERSE, RTN_UNICAST.
    message.extend([2, 24, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0]);
    for (attribute, value) in [
        (1u8, to.octets()),
        (5, Ipv4Addr::new(10, 77, 0, 1).octets()),
        (4, interface.to_le_bytes()),
    ] {
        message.extend([8, 0, attribute, 0]);
        message.extend(value);
    }
    message
}

/// The recording of the healthy node with these routes behind its own.
fn with_routes(more: &[u8]) -> Recording {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/rxe-two-healthy.jsonl.zst");
    let whole = Recording::open(&path).unwrap();
    let mut recording = Recording::new(whole.header.clone());
    let asked = Question::netlink("route/getroute", []);
    let mut added = 0;
    for mut line in whole.to_lines() {
        if let Line::Reply {
            question, reply, ..
        } = &mut line
            && *question == asked
            && let Ok(Answer::Bytes(bytes)) = &mut reply.said
        {
            *bytes = [bytes, more].concat().into();
            added += 1;
        }
        recording.add(line);
    }
    assert!(added > 0, "the fixture has routes");
    recording.end();
    recording
}

fn judged(recording: Recording) -> Report {
    let catalogue = Catalogue::embedded().unwrap();
    many::judged(&catalogue, &[recording], &Policy::default())
}

#[test]
fn ten_thousand_routes_take_nothing_away() {
    let routes = (0..10_000u32).flat_map(|n| route(Ipv4Addr::from(0x1400_0000 + (n << 8)), 2));
    let routes: Vec<u8> = routes.collect();
    let (few, many) = (judged(with_routes(&[])), judged(with_routes(&routes)));
    assert_eq!((few.status, &few.headline), ("healthy", &many.headline));
    assert_eq!(few.counts.passes, many.counts.passes);
}

#[test]
fn what_is_no_route_among_ten_thousand_is_said() {
    let routes = (0..10_000u32).flat_map(|n| route(Ipv4Addr::from(0x1400_0000 + (n << 8)), 2));
    let broken: Vec<u8> = routes.chain([9; 20]).collect();
    let report = judged(with_routes(&broken));
    assert_eq!(report.status, "undecided", "{}", report.headline);
}
