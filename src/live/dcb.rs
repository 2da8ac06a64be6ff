//! Data centre bridging of a network device: PFC, ETS, application priorities, buffers, and what negotiates them.

use netlink_sys::protocols::NETLINK_ROUTE;

use super::netlink::Connection;
use crate::source::netlink::attribute;
use crate::source::question::Call;
use crate::source::{Answer, Errno, Refusal};

/// `RTM_GETDCB` (include/uapi/linux/rtnetlink.h).
const RTM_GETDCB: u16 = 78;
/// `DCB_CMD_IEEE_GET` (include/uapi/linux/dcbnl.h).
const DCB_CMD_IEEE_GET: u8 = 21;
/// `DCB_ATTR_IFNAME`.
const DCB_ATTR_IFNAME: u16 = 1;

/// Answers `route/getdcb` of one netdev: the kernel's one message. Needs no privilege, and a name that no device has loads nothing.
///
/// The reply of `DCB_CMD_IEEE_GET` holds the mode of DCBX too. `EOPNOTSUPP` says that the driver has no data centre bridging.
pub fn ask(call: &Call) -> Result<Answer, Refusal> {
    // IFNAMSIZ is 16, with the NUL at its end.
    let name = call
        .text("netdev")
        .filter(|name| (1..16).contains(&name.len()))
        .ok_or(Refusal::Errno(Errno::EINVAL))?;
    // struct dcbmsg: family AF_UNSPEC, command, two bytes of padding.
    let mut payload = vec![0, DCB_CMD_IEEE_GET, 0, 0];
    payload.extend(attribute(
        DCB_ATTR_IFNAME,
        &[name.as_bytes(), &[0]].concat(),
    ));
    let messages = Connection::open(NETLINK_ROUTE)?.request(RTM_GETDCB, 0, &payload)?;
    Ok(Answer::Bytes(messages.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(name: &str) -> Result<Answer, Refusal> {
        ask(&Call::new("route/getdcb", [("netdev", name.into())]))
    }

    #[test]
    fn a_device_without_bridging_and_none_at_all() {
        // A kernel without data centre bridging knows neither.
        let none = Err(Refusal::Errno(Errno::EOPNOTSUPP));
        assert_eq!(asked("lo"), none);
        let absent = asked("no-such-device");
        assert!(absent == Err(Refusal::Errno(Errno::ENODEV)) || absent == none);
        assert_eq!(asked(""), Err(Refusal::Errno(Errno::EINVAL)));
        assert_eq!(
            asked("sixteen-letters-"),
            Err(Refusal::Errno(Errno::EINVAL))
        );
    }
}
