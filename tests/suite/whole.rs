//! What is wrong on one node explains what another one says: recordings are joined by the addresses that lines name, and by `explains` alone.

use std::path::Path;

use rdma_doctor::check::Catalogue;
use rdma_doctor::examine::many;
use rdma_doctor::nccl_log::Reader;
use rdma_doctor::probe::nccl_log;
use rdma_doctor::report::{Policy, Report};
use rdma_doctor::source::recording::Recording;
use rdma_doctor::source::wire::{Header, Line};

const FILTER: &str = "firewall/bootstrap-blocked";
const TIMEOUT: &str = "log/connect-timed-out";

/// The log of rank 0 on n0, which cannot connect to a peer at this address.
fn log_of_rank_0(peer: &str) -> Recording {
    let mut log = Recording::new(Header {
        log: true,
        ..Header::default()
    });
    let text = format!(
        "n0:1200:1200 [0] NCCL INFO NCCL version 2.18.5+cuda12.2\n\
         n0:1200:1234 [0] misc/socket.cc:485 NCCL WARN socketStartConnect: Connect to \
         {peer}<41235> failed : Connection timed out\n"
    );
    let files = serde_json::json!({ "files": ["job.log"] });
    log.add(Line::of(nccl_log::NAME, nccl_log::files(), &files, 0));
    let mut reader = Reader::default();
    reader.feed(text.as_bytes());
    let (question, digest) = (nccl_log::file("job.log"), reader.finish(None));
    log.add(Line::of(nccl_log::NAME, question, &digest, 0));
    log
}

/// A node with a packet filter that rejects the bootstrap; it has the address 192.168.190.131.
fn filtered(name: &str) -> Recording {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/rxe-firewall-bootstrap.jsonl.zst");
    let mut node = Recording::open(&path).unwrap();
    node.header.node = name.into();
    // Its addresses stand for the machine's own.
    node.header.redacted = false;
    node
}

/// Beside each other with all their facts, and as a whole of which each gives its part.
fn reports(peer: &str) -> [Report; 2] {
    let catalogue = Catalogue::embedded().unwrap();
    let all = [log_of_rank_0(peer), filtered("n4")];
    let policy = Policy::default();
    [
        many::judged(&catalogue, &all, &policy),
        many::recordings(&catalogue, &all, None, &policy),
    ]
}

fn is_cause(report: &Report, check: &str) -> bool {
    report.causes.iter().any(|cause| cause.check == check)
}

#[test]
fn a_filter_on_n4_explains_rank_0s_timeout() {
    for report in reports("192.168.190.131") {
        let mut causes = report.causes.iter();
        let filter = causes.find(|cause| cause.check == FILTER).unwrap();
        let consequences = filter.consequences.iter();
        let checks: Vec<&str> = consequences.map(|one| one.check.as_str()).collect();
        assert!(checks.contains(&TIMEOUT), "{checks:?}");
        assert!(!is_cause(&report, TIMEOUT));
    }
}

#[test]
fn a_filter_on_n4_does_not_explain_a_timeout_of_another_peer() {
    for report in reports("192.168.190.77") {
        assert!(is_cause(&report, FILTER) && is_cause(&report, TIMEOUT));
    }
}
