//! Which counters of ports say that packets had to be sent again.
//!
//! A reliable connection hides its losses: what was lost is sent again, and the application sees
//! less bandwidth at most. The ports of both ends count it, and each direction is measured by
//! itself, so that what rises meanwhile belongs to it.

use super::Counted;

/// Rise at the sender each time it begins again: at a negative acknowledgement of a sequence error,
/// which the receiver sends for a packet that is missing, and where no acknowledgement came in time
/// (mlx5, mlx4 and hns; soft-RoCE; bnxt_re; EFA; irdma).
const AGAIN: [&str; 9] = [
    "packet_seq_err",
    "local_ack_timeout_err",
    "rcvd_seq_err",
    "seq_err_naks_rcvd",
    "to_retransmits",
    "retrans_pkts",
    "retrans_timeout_events",
    "RetransSegs",
    "tcpRetransSegs",
];

/// How often the sender had to begin again, by what its port counted. Soft-RoCE does not count what
/// no acknowledgement came for in time: its `completer_retry_err` rises on a busy machine that
/// loses nothing.
pub fn again(sender: &Counted) -> u64 {
    let risen = AGAIN.iter().filter_map(|name| sender.get(*name));
    risen.sum()
}

/// Whether a port's counter is no traffic: what it means is known
/// ([`crate::fact::counter_table::meaning`]), and it is a fault, a loss or a wait.
pub fn is_wanted(name: &str) -> bool {
    let meaning = crate::fact::counter_table::meaning(name);
    meaning.is_some_and(|meaning| meaning.class != crate::fact::counter::CounterClass::Traffic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::counter::CounterClass;
    use crate::fact::counter_table::meaning;

    #[test]
    fn what_had_to_be_sent_again_is_a_loss_by_the_table_of_counters() {
        for name in AGAIN {
            assert_eq!(meaning(name).unwrap().class, CounterClass::Loss, "{name}");
            assert!(is_wanted(name));
        }
        assert!(is_wanted("port_xmit_wait") && is_wanted("np_cnp_sent"));
        assert!(!is_wanted("port_xmit_data") && !is_wanted("no_such"));
        let counted: Counted = [
            ("packet_seq_err".to_owned(), 7),
            ("local_ack_timeout_err".to_owned(), 1),
            ("port_xmit_wait".to_owned(), 900),
        ]
        .into();
        assert_eq!((again(&counted), again(&Counted::new())), (8, 0));
    }
}
