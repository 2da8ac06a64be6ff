//! libibverbs: whether it works, which devices it lists, and what it reports about their ports.

use std::sync::Arc;

use serde_json::Value;

use super::chardev::CharNodes;
use super::{Ask, Probe, device};
use crate::fact::device::PROVIDER;
use crate::fact::node::{LIBIBVERBS, LIBIBVERBS_ERROR, Libibverbs};
use crate::fact::port::{MAX_MTU, MTU, PortState, VERBS_STATE};
use crate::fact::{Bytes, Fact, Facts, Gap, Id, Origin, Presence, Subject, Why, known};
use crate::source::{Errno, Question, Refusal};

/// The probe.
pub const PROBE: Probe = Probe::new("verbs", run);

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let (list, no_kernel_verbs) = device_list(ask);
    let works = match no_kernel_verbs {
        Some(origin) => Fact::Known(Libibverbs::NoKernelVerbs, origin),
        None => libibverbs(&list),
    };
    facts.set(node, LIBIBVERBS, works);
    if let Fact::Unknown(Gap {
        why: Why::Refused(Refusal::LibraryMissing(words)),
        origin,
    }) = &list
    {
        facts.know(node, LIBIBVERBS_ERROR, Arc::clone(words), origin);
    }
    let list = list.and_then(|value| device_names(&value));

    let nodes = CharNodes::ask(ask);
    for device in device::devices(ask).0.iter() {
        let id = facts.instance(Subject::Device, node, device);
        facts.set(id, PROVIDER, provider(ask, &list, &nodes, device));
    }
    for port in device::ports(ask, facts, node).0 {
        let of_port = [
            ("device", (&*port.device).into()),
            ("port", port.number.into()),
        ];
        let question = Question::call("ibv_query_port", of_port);
        let reply = match list.as_result() {
            Ok(listed) if listed.contains(&port.device) => ask.value(question),
            Ok(_) => Fact::Unknown(Gap::not_understood(
                &get_device_list(),
                format!("{} is not listed", port.device),
            )),
            Err(gap) => Fact::Unknown(gap.clone()),
        };
        let field = |name: &'static str| {
            reply
                .clone()
                .and_then(move |value| super::member(&value, name))
        };
        facts.set(port.id, MTU, field("active_mtu").and_then(mtu));
        facts.set(port.id, MAX_MTU, field("max_mtu").and_then(mtu));
        facts.set(port.id, VERBS_STATE, field("state").and_then(port_state));
    }
}

fn get_device_list() -> Question {
    Question::call("ibv_get_device_list", [])
}

/// Asks for the list only where `ib_uverbs` is loaded: libibverbs opens an RDMA netlink socket first, for which the kernel
/// would load `ib_core`. Without it the library is only loaded, to know whether it is there, and what sysfs says of the kernel's part is returned, too.
fn device_list(ask: &Ask<'_>) -> (Fact<Arc<Value>>, Option<Origin>) {
    match ask.text_if_any("/sys/class/infiniband_verbs/abi_version") {
        Presence::Present(..) => (ask.value(get_device_list()), None),
        Presence::Absent(origin) => match ask.value(Question::call("ibv_library", [])) {
            Fact::Known(..) => {
                // What the list would say, and what libibverbs does say in this case.
                let why = Why::Refused(Refusal::Errno(Errno::ENOSYS));
                (Fact::Unknown(Gap::new(why, origin.clone())), Some(origin))
            }
            Fact::Unknown(gap) => (Fact::Unknown(gap), None),
        },
        Presence::Unknown(gap) => (Fact::Unknown(gap), None),
    }
}

/// Whether libibverbs works where the kernel's part is there.
fn libibverbs(list: &Fact<Arc<Value>>) -> Fact<Libibverbs> {
    let gap = match list {
        Fact::Known(_, origin) => return Fact::Known(Libibverbs::Works, origin.clone()),
        Fact::Unknown(gap) => gap,
    };
    let says = match &gap.why {
        // The loader's words of a file that is not there begin with its name.
        Why::Refused(Refusal::LibraryMissing(words))
            if words.starts_with("libibverbs") && words.contains("No such file")
                || words.is_empty() =>
        {
            Libibverbs::Missing
        }
        Why::Refused(Refusal::LibraryMissing(_)) => Libibverbs::NotLoadable,
        // Files that ran out tell of no library.
        Why::Refused(Refusal::Errno(Errno::ENFILE | Errno::EMFILE)) => {
            return Fact::Unknown(gap.clone());
        }
        Why::Refused(Refusal::SymbolMissing(_)) => Libibverbs::Fails,
        // A refusal of sysfs leads here too; only the library's own counts. ENOSYS is none of a missing kernel's part: the library says it as well where
        // it cannot open abi_version, or does not know the version (`check_abi_version` in rdma-core's libibverbs/init.c).
        Why::Refused(refusal @ Refusal::Errno(_))
            if !refusal.is_permission()
                && matches!(&gap.origin, Origin::Asked(Question::Call(_))) =>
        {
            Libibverbs::Fails
        }
        _ => return Fact::Unknown(gap.clone()),
    };
    Fact::Known(says, gap.origin.clone())
}

/// The names in the reply to `ibv_get_device_list`.
fn device_names(value: &Value) -> Result<Vec<Arc<str>>, String> {
    #[derive(serde::Deserialize)]
    struct Named {
        name: Arc<str>,
    }
    let devices: Vec<Named> = super::member(value, "devices")?;
    Ok(devices.into_iter().map(|device| device.name).collect())
}

/// Whether user space has a provider for a device.
///
/// libibverbs leaves out devices without a provider, and those without their node in /dev (`try_access_device` in rdma-core's
/// libibverbs/init.c): only with the node there does a missing device tell of its provider.
fn provider(
    ask: &Ask<'_>,
    list: &Fact<Vec<Arc<str>>>,
    nodes: &CharNodes,
    device: &str,
) -> Fact<bool> {
    let (listed, origin) = known!(list.clone(), with origin);
    if listed.iter().any(|name| **name == *device) {
        return Fact::Known(true, origin);
    }
    let node = match &*known!(nodes.of(device)) {
        "none" => return Fact::Unknown(Gap::missing("device.uverbs")),
        node => format!("/dev/infiniband/{node}"),
    };
    match ask.exists(&node) {
        Fact::Known(true, _) => Fact::Known(false, origin),
        Fact::Known(false, _) => Fact::Unknown(Gap::not_understood(
            &get_device_list(),
            format!("{device} is not listed, which without {node} tells nothing"),
        )),
        Fact::Unknown(gap) => Fact::Unknown(gap),
    }
}

/// `enum ibv_mtu` (infiniband/verbs.h): 1 is 256 bytes, 5 is 4096.
fn mtu(number: u64) -> Result<Bytes, String> {
    match number {
        1..=5 => Ok(Bytes(128 << number)),
        _ => Err(format!("{number} is not an enum ibv_mtu")),
    }
}

/// `enum ibv_port_state` (infiniband/verbs.h), which is the kernel's `enum ib_port_state`, and the order in which the words are declared.
pub(super) fn port_state(number: u64) -> Result<PortState, String> {
    let state = usize::try_from(number)
        .ok()
        .and_then(|at| PortState::ALL.get(at));
    let state = state.copied();
    state.ok_or_else(|| format!("{number} is not an enum ib_port_state"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::testing::{known, run};

    /// soft-RoCE on Debian 12, rdma-core 44, as root.
    const RXE: &[&str] = &[
        r#"{"q":{"read":"/sys/class/infiniband_verbs/abi_version"},"text":"6\n"}"#,
        r#"{"q":{"call":"ibv_get_device_list"},"value":{"devices":[{"guid":"5054:00ff:fe4d:0001","name":"rxe0","node_type":1,"transport":0}]}}"#,
        r#"{"q":{"list":"/sys/class/infiniband_verbs"},"names":["abi_version","uverbs0"]}"#,
        r#"{"q":{"read":"/sys/class/infiniband_verbs/uverbs0/ibdev"},"text":"rxe0\n"}"#,
        r#"{"q":{"list":"/sys/class/infiniband"},"names":["rxe0"]}"#,
        r#"{"q":{"list":"/sys/class/infiniband/rxe0/ports"},"names":["1"]}"#,
        r#"{"q":{"call":"ibv_query_port","device":"rxe0","port":1},"value":{"state":4,"phys_state":5,"max_mtu":5,"active_mtu":3,"link_layer":2}}"#,
    ];

    #[test]
    fn a_working_library_and_its_port() {
        let (facts, node) = run(&PROBE, RXE);
        assert_eq!(facts.known(node, LIBIBVERBS), Some(Libibverbs::Works));
        assert_eq!(known(&facts, Subject::Device, "rxe0", PROVIDER), Some(true));
        assert_eq!(
            known(&facts, Subject::Port, "rxe0/1", MTU),
            Some(Bytes(1024))
        );
        assert_eq!(
            known(&facts, Subject::Port, "rxe0/1", MAX_MTU),
            Some(Bytes(4096))
        );
        assert_eq!(
            known(&facts, Subject::Port, "rxe0/1", VERBS_STATE),
            Some(PortState::Active)
        );
    }

    #[test]
    fn every_missing_reply_leaves_gaps_only() {
        for (dropped, line) in RXE.iter().enumerate() {
            let mut lines = RXE.to_vec();
            lines.remove(dropped);
            let (facts, node) = run(&PROBE, &lines);
            let says = facts.known(node, LIBIBVERBS);
            assert!(
                matches!(says, None | Some(Libibverbs::Works)),
                "without {line}"
            );
            for id in facts.all(Subject::Device) {
                assert_ne!(facts.known(id, PROVIDER), Some(false), "without {line}");
            }
        }
    }

    #[test]
    fn a_port_that_may_not_be_opened_is_a_gap_of_permission() {
        let mut lines = RXE[..6].to_vec();
        lines.push(r#"{"q":{"call":"ibv_query_port","device":"rxe0","port":1},"errno":"EACCES"}"#);
        let (facts, node) = run(&PROBE, &lines);
        assert_eq!(facts.known(node, LIBIBVERBS), Some(Libibverbs::Works));
        let port = facts.all(Subject::Port).next().unwrap();
        let Fact::Unknown(gap) = facts.get(port, MTU) else {
            panic!()
        };
        assert_eq!(gap.why.remedy(), Some("run as root"));
    }

    #[test]
    fn a_device_without_a_provider_is_known_only_where_its_node_is_there() {
        let lines = |dev: &'static str| {
            let mut lines = RXE.to_vec();
            lines[1] = r#"{"q":{"call":"ibv_get_device_list"},"value":{"devices":[]}}"#;
            lines[6] = dev;
            lines
        };
        let (facts, node) = run(
            &PROBE,
            &lines(r#"{"q":{"list":"/dev/infiniband"},"names":["rdma_cm","uverbs0"]}"#),
        );
        assert_eq!(facts.known(node, LIBIBVERBS), Some(Libibverbs::Works));
        assert_eq!(
            known(&facts, Subject::Device, "rxe0", PROVIDER),
            Some(false)
        );
        assert_eq!(known(&facts, Subject::Port, "rxe0/1", MTU), None);
        for dev in [
            r#"{"q":{"list":"/dev/infiniband"},"names":["rdma_cm"]}"#,
            r#"{"q":{"list":"/dev/infiniband"},"errno":"EACCES"}"#,
        ] {
            let (facts, _) = run(&PROBE, &lines(dev));
            assert_eq!(known(&facts, Subject::Device, "rxe0", PROVIDER), None);
        }
    }

    #[test]
    fn without_kernel_verbs_the_library_is_only_loaded() {
        const NO_KERNEL: &[&str] = &[
            r#"{"q":{"read":"/sys/class/infiniband_verbs/abi_version"},"errno":"ENOENT"}"#,
            r#"{"q":{"list":"/sys/class/infiniband_verbs"},"errno":"ENOENT"}"#,
            r#"{"q":{"list":"/sys/class"},"names":["net"]}"#,
        ];
        for (reply, says) in [
            (
                r#"{"q":{"call":"ibv_library"},"value":{"loaded":"libibverbs.so.1"}}"#,
                Some(Libibverbs::NoKernelVerbs),
            ),
            (
                r#"{"q":{"call":"ibv_library"},"refused":"library-missing: libibverbs.so.1: cannot open shared object file: No such file or directory"}"#,
                Some(Libibverbs::Missing),
            ),
            (
                r#"{"q":{"call":"ibv_library"},"refused":"library-missing: /lib/x86_64-linux-gnu/libibverbs.so.1: file too short"}"#,
                Some(Libibverbs::NotLoadable),
            ),
            (
                r#"{"q":{"call":"ibv_library"},"refused":"library-missing: libnl-route-3.so.200: cannot open shared object file: No such file or directory"}"#,
                Some(Libibverbs::NotLoadable),
            ),
            (r#"{"q":{"list":"/x"},"names":[]}"#, None),
        ] {
            let (facts, node) = run(&PROBE, &[NO_KERNEL, &[reply]].concat());
            assert_eq!(facts.known(node, LIBIBVERBS), says, "{reply}");
        }
        // Absence must be observed: neither one reply nor a sysfs that answers ENOSYS itself is that.
        let works = r#"{"q":{"call":"ibv_library"},"value":{"loaded":"libibverbs.so.1"}}"#;
        let odd = r#"{"q":{"read":"/sys/class/infiniband_verbs/abi_version"},"errno":"ENOSYS"}"#;
        for lines in [&[NO_KERNEL[0], works], &[odd, works]] {
            let (facts, node) = run(&PROBE, lines);
            assert_eq!(facts.known(node, LIBIBVERBS), None, "{lines:?}");
        }
    }

    #[test]
    fn a_library_that_fails() {
        for (errno, works) in [
            ("ENOMEM", Some(Libibverbs::Fails)),
            // While sysfs shows the kernel's part: another version, or a file that could not be opened.
            ("ENOSYS", Some(Libibverbs::Fails)),
            ("ENFILE", None),
            ("EMFILE", None),
        ] {
            let reply = format!(r#"{{"q":{{"call":"ibv_get_device_list"}},"errno":"{errno}"}}"#);
            let mut lines = RXE.to_vec();
            lines[1] = &reply;
            let (facts, node) = run(&PROBE, &lines);
            assert_eq!(facts.known(node, LIBIBVERBS), works, "{errno}");
            assert_eq!(known(&facts, Subject::Device, "rxe0", PROVIDER), None);
        }
    }

    #[test]
    fn enums() {
        assert_eq!(mtu(1), Ok(Bytes(256)));
        assert_eq!(mtu(5), Ok(Bytes(4096)));
        assert!(mtu(0).is_err() && mtu(6).is_err());
        assert!(port_state(6).is_err());
    }
}
