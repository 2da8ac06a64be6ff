//! The counters whose meaning is known. The manual page's section COUNTERS is made from this table.
//!
//! Sources: InfiniBand Architecture Specification 16.1.3.5 (PortCounters) for the classic ones with their widths; the kernel's
//! drivers/infiniband/hw/{mlx5/counters.c, bnxt_re/hw_counters.c, irdma/verbs.c, efa/efa_verbs.c} and
//! sw/rxe/rxe_hw_counters.c for the drivers' own, with NVIDIA's "Understanding mlx5 Linux Counters" for what they mean.

use crate::fact::counter::CounterClass::{self, *};

/// A counter's meaning.
pub struct CounterMeaning {
    /// Its file's name, below `counters` or `hw_counters`.
    pub name: &'static str,
    /// What its rise means.
    pub class: CounterClass,
    /// The bits that it has where it stops at its largest value; `None` if it is no classic one and does not stop.
    pub stops_at: Option<u32>,
    /// The events that it counts.
    pub counts: &'static str,
}

macro_rules! counters {
    ($(#[$meta:meta])* $($name:literal: $class:ident $(stops at $bits:literal bits)?, $counts:literal;)*) => {
        $(#[$meta])*
        pub static COUNTERS: &[CounterMeaning] = &[$(CounterMeaning {
            name: $name,
            class: $class,
            stops_at: counters!(@bits $($bits)?),
            counts: $counts,
        }),*];
    };
    (@bits) => { None };
    (@bits $bits:literal) => { Some($bits) };
}

counters! {
    /// The counters whose meaning is known, and no other is read: some firmware logs an error for each that it withholds.
    ///
    /// Left out on purpose: `port_rcv_switch_relay_errors` (means nothing on an adapter), `req_cqe_flush_error` and
    /// `resp_cqe_flush_error` (rise whenever a connection is taken down), and whatever counts traffic or objects.

    // counters: the classic ones.
    "symbol_error": Link stops at 16 bits, "damaged symbols on a lane";
    "link_error_recovery": Link stops at 8 bits, "successful recoveries of the link";
    "link_downed": Flap stops at 8 bits, "the link went down";
    "port_rcv_errors": Link stops at 16 bits, "received packets that were damaged";
    "port_rcv_remote_physical_errors": Corruption stops at 16 bits, "packets that another link damaged, marked as such on their way";
    "local_link_integrity_errors": Link stops at 4 bits, "local physical errors beyond their threshold";
    "excessive_buffer_overrun_errors": Link stops at 4 bits, "flow control failed for several update periods";
    "port_xmit_discards": Congestion stops at 16 bits, "packets discarded because the port was down or congested";
    "port_xmit_constraint_errors": Local stops at 8 bits, "packets not sent because of a P_Key or a filter";
    "port_rcv_constraint_errors": Local stops at 8 bits, "packets dropped because of a P_Key or a filter";
    "VL15_dropped": Local stops at 16 bits, "management packets dropped for want of buffers";
    "port_xmit_wait": Congestion stops at 32 bits, "ticks for which data waited for credits";
    "port_xmit_data": Traffic stops at 32 bits, "octets sent, divided by 4";
    "port_rcv_data": Traffic stops at 32 bits, "octets received, divided by 4";
    // hw_counters of mlx5 (some of mlx4, hns and erdma have the same names).
    "out_of_sequence": Loss, "packets received out of order";
    "packet_seq_err": Loss, "negative acknowledgements of a sequence error received";
    "implied_nak_seq_err": Loss, "acknowledgements of a later packet than awaited, for reads and atomics";
    "local_ack_timeout_err": Loss, "acknowledgements that did not come in time";
    "duplicate_request": Congestion, "requests received a second time: the peer waited too long, or an answer was lost";
    "req_transport_retries_exceeded": Loss, "connections given up after the last try";
    "roce_adp_retrans": Loss, "adaptive retransmissions";
    "roce_adp_retrans_to": Loss, "adaptive retransmissions after a timeout";
    "roce_slow_restart": Loss, "slow restarts after a retransmission";
    "rx_icrc_encapsulated": Corruption, "RoCE packets with a wrong checksum (ICRC)";
    "np_cnp_sent": Congestion, "congestion notifications sent, for marked packets received";
    "np_ecn_marked_roce_packets": Congestion, "packets received that a switch marked for congestion";
    "rp_cnp_handled": Congestion, "congestion notifications that slowed this side's sending";
    "rp_cnp_ignored": Congestion, "congestion notifications received and ignored";
    "out_of_buffer": Local, "packets dropped because no receive was posted";
    "rnr_nak_retry_err": Local, "the peer was not ready to receive";
    "req_rnr_retries_exceeded": Local, "connections given up because the peer stayed not ready to receive";
    "req_cqe_error": Local, "requests of this side completed in error";
    "resp_cqe_error": Local, "receives of this side completed in error";
    "req_remote_access_errors": Local, "requests refused by the peer for want of access";
    "resp_remote_access_errors": Local, "peers' requests refused for want of access";
    "req_remote_invalid_request": Local, "requests that the peer calls invalid";
    "resp_local_length_error": Local, "messages longer than the posted receive";
    // hw_counters of soft-RoCE.
    "out_of_seq_request": Loss, "requests received out of order";
    "rcvd_seq_err": Loss, "negative acknowledgements of a sequence error received";
    "sent_pkts": Traffic, "packets sent";
    "rcvd_pkts": Traffic, "packets received";
    "completer_retry_err": Congestion, "requests sent again: the peer was slow, or a packet was lost";
    "retry_exceeded_err": Loss, "connections given up after the last try";
    "retry_rnr_exceeded_err": Local, "connections given up because the peer stayed not ready to receive";
    "rcvd_rnr_err": Local, "the peer was not ready to receive";
    "send_rnr_err": Local, "this side was not ready to receive";
    "send_err": Local, "packets that this side's network stack did not take: a firewall, a route, an MTU";
    // hw_counters of bnxt_re.
    "to_retransmits": Loss, "retransmissions after a timeout";
    "seq_err_naks_rcvd": Loss, "negative acknowledgements of a sequence error received";
    "max_retry_exceeded": Loss, "connections given up after the last try";
    "dup_req": Loss, "requests received a second time: the peer sent again";
    "oos_drop_count": Loss, "packets received out of order and dropped";
    "missing_resp": Loss, "responses that did not come";
    "rx_roce_discards": Congestion, "RoCE packets discarded on receipt";
    "rx_ecn_marked_pkts": Congestion, "packets received that a switch marked for congestion";
    "tx_cnp_pkts": Congestion, "congestion notifications sent";
    "rx_cnp_pkts": Congestion, "congestion notifications received";
    "rx_out_of_buffer": Local, "packets dropped because no receive was posted";
    "rnr_naks_rcvd": Local, "the peer was not ready to receive";
    "local_protection_err": Local, "requests to memory that was not registered for them";
    "remote_access_err": Local, "requests refused by the peer for want of access";
    "remote_invalid_req_err": Local, "requests that the peer calls invalid";
    // hw_counters of irdma and i40iw.
    "tcpRetransSegs": Loss, "iWARP segments sent again";
    "RetransSegs": Loss, "segments sent again";
    "ip4InDiscards": Local, "IPv4 packets discarded on receipt";
    "ip6InDiscards": Local, "IPv6 packets discarded on receipt";
    "RxECNMrkd": Congestion, "packets received that a switch marked for congestion";
    "cnpSent": Congestion, "congestion notifications sent";
    "cnpHandled": Congestion, "congestion notifications that slowed this side's sending";
    "cnpIgnored": Congestion, "congestion notifications received and ignored";
    // hw_counters of EFA.
    "rx_drops": Loss, "packets dropped on receipt";
    "retrans_pkts": Loss, "packets sent again";
    "retrans_timeout_events": Loss, "retransmissions after a timeout";
    "impaired_remote_conn_events": Loss, "connections that became slow because of losses";
    "unresponsive_remote_events": Loss, "connections to peers that did not answer";
}

/// The meaning of the counter of this name.
pub fn meaning(name: &str) -> Option<&'static CounterMeaning> {
    COUNTERS.iter().find(|counter| counter.name == name)
}

impl CounterMeaning {
    /// Whether the value is the largest that the counter can hold.
    pub fn is_saturated(&self, value: u64) -> bool {
        let limit = |bits: u32| (1u64 << bits) - 1;
        // Drivers with 64-bit forms of a classic counter do not stop at the classic width, but none ends there by chance.
        value == u64::MAX || self.stops_at.is_some_and(|bits| value == limit(bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = COUNTERS.iter().map(|c| c.name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(COUNTERS.iter().all(|c| c.stops_at.is_none_or(|b| b < 64)));
    }

    #[test]
    fn saturation_is_exact() {
        let saturated = |name, value| meaning(name).unwrap().is_saturated(value);
        assert!(saturated("symbol_error", 65535) && !saturated("symbol_error", 65536));
        assert!(saturated("local_link_integrity_errors", 15));
        assert!(saturated("port_xmit_wait", 4_294_967_295));
        assert!(saturated("port_rcv_data", u64::MAX));
        assert!(!saturated("out_of_sequence", 255));
        assert!(meaning("port_rcv_packets").is_none());
    }
}
