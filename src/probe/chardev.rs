//! Character devices: what user space needs besides the kernel's driver.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Ask, Probe, device};
use crate::fact::device as fact;
use crate::fact::node::{self, CharDevice};
use crate::fact::{Fact, Facts, Gap, Id, Origin, Presence, Subject};
use crate::source::{Errno, Question, Refusal};

const VERBS: &str = "/sys/class/infiniband_verbs";
const DEV: &str = "/dev/infiniband";

/// The probe.
pub const PROBE: Probe = Probe::new("chardev", run);

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let dev_infiniband = ask.names_if_any(DEV).is_present();
    facts.set(node, node::DEV_INFINIBAND, dev_infiniband);
    let rdma_cm = match ask.names_if_any("/sys/class/misc/rdma_cm") {
        Presence::Present(..) => open(ask, &format!("{DEV}/rdma_cm")),
        // Opening a node that was left there makes the kernel load the module: it is not even tried.
        Presence::Absent(origin) => Fact::Known(CharDevice::Absent, origin),
        Presence::Unknown(gap) => Fact::Unknown(gap),
    };
    facts.set(node, node::RDMA_CM, rdma_cm);

    let verbs = CharNodes::ask(ask);
    let Fact::Known(devices, _) = ask.names(device::CLASS) else {
        return;
    };
    for name in devices.iter() {
        let id = facts.instance(Subject::Device, node, name);
        let uverbs = verbs.of(name);
        let opened = match &uverbs {
            Fact::Known(uverbs, origin) if &**uverbs == "none" => {
                Fact::Known(CharDevice::Absent, origin.clone())
            }
            Fact::Known(uverbs, _) => open(ask, &format!("{DEV}/{uverbs}")),
            Fact::Unknown(gap) => Fact::Unknown(gap.clone()),
        };
        facts.set(id, fact::UVERBS, uverbs);
        facts.set(id, fact::CHAR_DEVICE, opened);
    }
}

/// Which verbs device belongs to which RDMA device.
pub(super) struct CharNodes {
    by_device: HashMap<Arc<str>, (Arc<str>, Origin)>,
    /// Known if these are all.
    all: Fact<()>,
}

impl CharNodes {
    pub(super) fn ask(ask: &Ask<'_>) -> Self {
        let mut by_device = HashMap::new();
        // Without the module ib_uverbs there is no such class.
        let names = ask.names_if_any(VERBS).or_absent(Arc::default());
        let mut all = names.clone().map(|_| ());
        let names = names.known().into_iter().flat_map(|names| names.iter());
        // The class has the file `abi_version` too.
        for name in names.filter(|n| n.starts_with("uverbs")) {
            match ask.text(format!("{VERBS}/{name}/ibdev")) {
                Fact::Known(device, origin) => {
                    by_device.insert(device, (Arc::clone(name), origin));
                }
                Fact::Unknown(gap) => all = Fact::Unknown(gap),
            }
        }
        CharNodes { by_device, all }
    }

    pub(super) fn of(&self, device: &str) -> Fact<Arc<str>> {
        match (self.by_device.get(device), &self.all) {
            (Some((name, origin)), _) => Fact::Known(Arc::clone(name), origin.clone()),
            (None, all) => all.clone().map(|()| "none".into()),
        }
    }
}

/// The result of opening a character device.
fn open(ask: &Ask<'_>, path: &str) -> Fact<CharDevice> {
    let question = Question::open(path);
    let refusal = match ask.raw(&question).said {
        Ok(_) => return Fact::Known(CharDevice::Usable, Origin::Asked(question)),
        Err(refusal) => refusal,
    };
    let word = match refusal {
        Refusal::Errno(Errno::EACCES) => CharDevice::Denied,
        Refusal::Errno(Errno::EPERM) => CharDevice::Forbidden,
        Refusal::Errno(Errno::ENXIO | Errno::ENODEV) => CharDevice::Dead,
        Refusal::Errno(Errno::ENOENT | Errno::ENOTDIR)
            if ask.exists(path).known() == Some(&false) =>
        {
            CharDevice::Absent
        }
        other => return Fact::Unknown(Gap::refused(&question, other)),
    };
    Fact::Known(word, Origin::Asked(question))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::testing::{known, run};

    const DEVICES: &str =
        r#"{"q":{"list":"/sys/class/infiniband"},"names":["mlx5_0","mlx5_1","rxe0"]}"#;
    const CLASS: &str = r#"{"q":{"list":"/sys/class/infiniband_verbs"},"names":["abi_version","uverbs0","uverbs1"]}"#;
    const FIRST: &str =
        r#"{"q":{"read":"/sys/class/infiniband_verbs/uverbs0/ibdev"},"text":"mlx5_1\n"}"#;
    const SECOND: &str =
        r#"{"q":{"read":"/sys/class/infiniband_verbs/uverbs1/ibdev"},"text":"mlx5_0\n"}"#;

    fn opened(errno: &str, with_listing: bool) -> Option<CharDevice> {
        let open = format!(r#"{{"q":{{"open":"/dev/infiniband/uverbs0"}},"errno":"{errno}"}}"#);
        let mut lines = vec![DEVICES, CLASS, FIRST, SECOND, &open];
        if with_listing {
            lines.push(r#"{"q":{"list":"/dev/infiniband"},"names":["rdma_cm"]}"#);
        }
        let (facts, _) = run(&PROBE, &lines);
        known(&facts, Subject::Device, "mlx5_1", fact::CHAR_DEVICE)
    }

    #[test]
    fn each_errno_has_its_word() {
        assert_eq!(opened("EACCES", true), Some(CharDevice::Denied));
        assert_eq!(opened("EPERM", true), Some(CharDevice::Forbidden));
        assert_eq!(opened("ENXIO", true), Some(CharDevice::Dead));
        assert_eq!(opened("ENODEV", true), Some(CharDevice::Dead));
        assert_eq!(opened("ENOENT", true), Some(CharDevice::Absent));
        assert_eq!(
            opened("ENOENT", false),
            None,
            "nothing says that it is not there"
        );
        assert_eq!(opened("EBUSY", true), None);
    }

    #[test]
    fn a_device_without_verbs_has_none_only_where_all_are_known() {
        let open = r#"{"q":{"open":"/dev/infiniband/uverbs1"},"value":{"opened":"231:193"}}"#;
        let (facts, _) = run(&PROBE, &[DEVICES, CLASS, FIRST, SECOND, open]);
        let uverbs = |facts: &Facts, name| known(facts, Subject::Device, name, fact::UVERBS);
        assert_eq!(uverbs(&facts, "mlx5_0").as_deref(), Some("uverbs1"));
        assert_eq!(uverbs(&facts, "rxe0").as_deref(), Some("none"));
        assert_eq!(
            known(&facts, Subject::Device, "rxe0", fact::CHAR_DEVICE),
            Some(CharDevice::Absent)
        );
        assert_eq!(
            known(&facts, Subject::Device, "mlx5_0", fact::CHAR_DEVICE),
            Some(CharDevice::Usable)
        );
        let (facts, _) = run(&PROBE, &[DEVICES, CLASS, SECOND]);
        assert_eq!(uverbs(&facts, "rxe0"), None);
    }

    #[test]
    fn rdma_cm_is_not_opened_without_its_module() {
        let lines = [
            r#"{"q":{"list":"/dev"},"names":["null"]}"#,
            r#"{"q":{"list":"/dev/infiniband"},"errno":"ENOENT"}"#,
            r#"{"q":{"list":"/sys/class/misc/rdma_cm"},"errno":"ENOENT"}"#,
            r#"{"q":{"list":"/sys/class/misc"},"names":["fuse"]}"#,
            r#"{"q":{"open":"/dev/infiniband/rdma_cm"},"errno":"EACCES"}"#,
        ];
        let (facts, node) = run(&PROBE, &lines);
        assert_eq!(facts.known(node, node::DEV_INFINIBAND), Some(false));
        assert_eq!(facts.known(node, node::RDMA_CM), Some(CharDevice::Absent));
        let (facts, node) = run(&PROBE, &lines[1..2]);
        assert_eq!(facts.known(node, node::DEV_INFINIBAND), None);
        assert_eq!(facts.known(node, node::RDMA_CM), None);
    }
}
