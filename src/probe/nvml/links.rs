//! The NVLinks of one GPU.

use serde_json::Value;

use super::address;
use super::reply::{NvmlReply, ReplyObject};
use crate::fact::nvlink::{self, Remote};
use crate::fact::{BitRate, Fact, Facts, Gap, Id, Membership, Subject, gpu};

/// States the links of a GPU.
pub(super) fn state(facts: &mut Facts, id: Id, said: &Result<NvmlReply, Gap>) {
    let said = match said {
        Ok(said) => said,
        Err(gap) => return open(facts, id, gap),
    };
    let links = match said.error("nvmlDeviceGetHandleByIndex_v2") {
        Some(error) => Err(said.refused(error)),
        None => said.all().list("links"),
    };
    let links = match links {
        Ok(links) => links,
        Err(gap) => return open(facts, id, &gap),
    };
    match said.error("why") {
        // It has none, or the driver knows of none.
        None | Some("NotSupported" | "InvalidArgument" | "MissingSymbol") => {}
        Some(error) => return open(facts, id, &said.refused(error)),
    }
    facts.set_members(Subject::Nvlink, id, Membership::Known(said.origin()));
    let (mut active, mut to_switch) = (0, Fact::Known(0, said.origin()));
    for value in links {
        let link = Link::new(said, value);
        active += u64::from(link.active.known() == Some(&true));
        if link.active.known() != Some(&false)
            && let Fact::Known(count, origin) = to_switch
        {
            to_switch = match &link.remote {
                Fact::Known(remote, _) => {
                    Fact::Known(count + u64::from(*remote == Remote::Switch), origin)
                }
                Fact::Unknown(gap) => Fact::Unknown(gap.clone()),
            };
        }
        link.state(facts, id);
    }
    let count = |count: u64| Fact::Known(count, said.origin());
    facts.set(id, gpu::NVLINKS, count(links.len() as u64));
    facts.set(id, gpu::NVLINKS_ACTIVE, count(active));
    facts.set(id, gpu::NVLINKS_TO_SWITCH, to_switch);
}

fn open(facts: &mut Facts, id: Id, gap: &Gap) {
    facts.set_members(Subject::Nvlink, id, Membership::Unknown(gap.clone()));
    for key in [gpu::NVLINKS, gpu::NVLINKS_ACTIVE, gpu::NVLINKS_TO_SWITCH] {
        facts.set(id, key, Fact::Unknown(gap.clone()));
    }
}

struct Link<'s> {
    part: ReplyObject<'s>,
    active: Fact<bool>,
    remote: Fact<Remote>,
}

impl<'s> Link<'s> {
    fn new(said: &'s NvmlReply, value: &'s Value) -> Self {
        let part = ReplyObject::within(said, value);
        let remote = part.number("nvmlDeviceGetNvLinkRemoteDeviceType");
        Link {
            part,
            active: part
                .number("nvmlDeviceGetNvLinkState")
                .map(|state| state == 1),
            remote: remote.and_then(|number| match number {
                0 => Ok(Remote::Gpu),
                1 => Ok(Remote::Cpu),
                2 => Ok(Remote::Switch),
                255 => Ok(Remote::Unknown),
                number => Err(format!("a device of kind {number}")),
            }),
        }
    }

    /// The counter of an older function, or of a newer field.
    fn count(&self, counter: &str, field: &str) -> Fact<u64> {
        let older = format!("nvmlDeviceGetNvLinkErrorCounter/{counter}");
        let older = self.part.number(&older);
        older.or_else(|| self.part.member("fields").number(field))
    }

    fn state(&self, facts: &mut Facts, gpu: Id) {
        let Some(&number) = self.part.number("link").known() else {
            return;
        };
        let name = format!("{} link {number}", facts.name(gpu));
        let id = facts.instance(Subject::Nvlink, gpu, &name);
        let part = self.part;
        facts.set(id, nvlink::LINK, part.number("link"));
        facts.set(id, nvlink::ACTIVE, self.active.clone());
        let version = part.number("nvmlDeviceGetNvLinkVersion");
        facts.set(id, nvlink::VERSION, version);
        let fields = part.member("fields");
        let speed = fields.number("NVLINK_GET_SPEED");
        let speed = speed.or_else(|| fields.number("NVLINK_SPEED_MBPS_COMMON"));
        // A link that is down has no speed, whatever the common one is.
        let speed = match self.active.known() {
            Some(true) => speed.and_then(|mb| match mb {
                0 => Err("0 MB/s".to_owned()),
                mb => Ok(BitRate(mb.saturating_mul(8_000_000))),
            }),
            _ => Fact::Unknown(Gap::missing("nvlink.active")),
        };
        facts.set(id, nvlink::SPEED, speed);
        facts.set(id, nvlink::REMOTE, self.remote.clone());
        let pci = part.text("nvmlDeviceGetNvLinkRemotePciInfo_v2");
        facts.set(id, nvlink::REMOTE_PCI, pci.map(address));
        let replays = part.number("nvmlDeviceGetNvLinkErrorCounter/replay");
        facts.set(id, nvlink::REPLAYS, replays);
        let crc_errors = part.number("nvmlDeviceGetNvLinkErrorCounter/crc-flit");
        facts.set(id, nvlink::CRC_ERRORS, crc_errors);
        let recoveries = self.count("recovery", "NVLINK_COUNT_LINK_RECOVERY_EVENTS");
        facts.set(id, nvlink::RECOVERIES, recoveries);
        for (key, name) in [
            (
                nvlink::RECOVERIES_FAILED,
                "NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS",
            ),
            (nvlink::RECEIVE_ERRORS, "NVLINK_COUNT_RCV_ERRORS"),
            (nvlink::EFFECTIVE_ERRORS, "NVLINK_COUNT_EFFECTIVE_ERRORS"),
        ] {
            facts.set(id, key, fields.number(name));
        }
    }
}
