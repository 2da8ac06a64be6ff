//! rtnetlink: network interfaces and their addresses, as getifaddrs(3) asks for them.
//!
//! A host of many containers has thousands of interfaces, each with some fifty attributes. Only those that are read are kept;
//! statistics are not asked for at all, and hardware addresses stay if they are.

use netlink_sys::protocols::NETLINK_ROUTE;

use super::{Connection, NLM_F_DUMP};
use crate::source::netlink::{Attributes, HEADER, attribute, messages};
use crate::source::question::Call;
use crate::source::{Answer, Errno, Refusal};

const RTM_GETLINK: u16 = 18;
const RTM_GETADDR: u16 = 22;
/// `struct ifinfomsg`, `struct ifaddrmsg` (linux/rtnetlink.h, linux/if_addr.h).
const IFINFOMSG: usize = 16;
const IFADDRMSG: usize = 8;
/// `IFLA_EXT_MASK` with `RTEXT_FILTER_SKIP_STATS`.
const IFLA_EXT_MASK: u16 = 29;
const RTEXT_FILTER_SKIP_STATS: u32 = 1 << 3;

/// `IFLA_IFNAME`, `_MTU`, `_LINK`, `_MASTER`, `_OPERSTATE`, `_LINKINFO`, `_XDP`.
const OF_LINK: &[u16] = &[3, 4, 5, 10, 16, IFLA_LINKINFO, IFLA_XDP];
const IFLA_LINKINFO: u16 = 18;
/// `IFLA_INFO_KIND`, the one of `IFLA_LINKINFO` that is kept.
const OF_LINKINFO: &[u16] = &[1];
const IFLA_XDP: u16 = 43;
/// `IFLA_XDP_ATTACHED`, `_PROG_ID`.
const OF_XDP: &[u16] = &[2, 4];
/// `IFA_ADDRESS`, `IFA_LOCAL`, `IFA_LABEL`, `IFA_FLAGS`.
const OF_ADDRESS: &[u16] = &[1, 2, 3, 6, 8];

/// The messages of a reply with what is read of them.
type Filter = fn(&[u8]) -> Option<Vec<u8>>;

/// Answers `route/getlink` and `route/getaddr`. The answer is all messages, with the attributes that are read.
pub(super) fn ask(call: &Call) -> Result<Answer, Refusal> {
    let mut payload;
    let (kind, keep): (u16, Filter) = match &*call.name {
        "route/getlink" => {
            payload = vec![0; IFINFOMSG];
            let skip = RTEXT_FILTER_SKIP_STATS.to_le_bytes();
            payload.extend(attribute(IFLA_EXT_MASK, &skip));
            (RTM_GETLINK, |all| keep::<IFINFOMSG>(all, OF_LINK))
        }
        "route/getaddr" => {
            payload = vec![0; IFADDRMSG];
            (RTM_GETADDR, |all| keep::<IFADDRMSG>(all, OF_ADDRESS))
        }
        name => return Err(Refusal::unknown_call(name)),
    };
    let connection = Connection::open(NETLINK_ROUTE)?;
    let messages = connection.request(kind, NLM_F_DUMP, &payload)?;
    match keep(&messages) {
        Some(bytes) => Ok(Answer::Bytes(bytes.into())),
        None => Err(Refusal::Errno(Errno::EPROTO)),
    }
}

/// The messages with these attributes only, after the fixed part that each begins with.
fn keep<const FIXED: usize>(all: &[u8], kept: &[u16]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(all.len() / 4);
    for message in messages::<FIXED>(all) {
        let message = message.ok()?;
        let start = out.len();
        out.extend_from_slice(message.bytes.get(..HEADER + FIXED)?);
        keep_attributes(message.attributes, kept, &mut out)?;
        let length = u32::try_from(out.len() - start).ok()?;
        out.get_mut(start..start + 4)?
            .copy_from_slice(&length.to_le_bytes());
    }
    Some(out)
}

fn keep_attributes(attributes: Attributes<'_>, kept: &[u16], out: &mut Vec<u8>) -> Option<()> {
    for each in attributes.each() {
        let (kind, value) = each.ok()?;
        // Attributes that hold others.
        let within = match kind {
            IFLA_LINKINFO if kept == OF_LINK => Some(OF_LINKINFO),
            IFLA_XDP if kept == OF_LINK => Some(OF_XDP),
            _ => None,
        };
        if let Some(kept) = within {
            let mut inner = Vec::new();
            keep_attributes(Attributes(value), kept, &mut inner)?;
            out.extend(attribute(kind, &inner));
        } else if kept.contains(&kind) {
            out.extend(attribute(kind, value));
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(attributes: &[u8]) -> Vec<u8> {
        let length = (HEADER + IFINFOMSG + attributes.len()) as u32;
        let mut message = length.to_ne_bytes().to_vec();
        message.resize(HEADER + IFINFOMSG, 7);
        message.extend_from_slice(attributes);
        message
    }

    #[test]
    fn hardware_addresses_and_statistics_are_not_kept() {
        let mut all = Vec::new();
        all.extend(attribute(3, b"eth0\0"));
        all.extend(attribute(1, &[2, 0, 0, 0, 0, 1]));
        let mut info = Vec::new();
        info.extend(attribute(1, b"veth\0"));
        info.extend(attribute(2, &[9; 40]));
        all.extend(attribute(18, &info));
        let mut wanted = Vec::new();
        wanted.extend(attribute(3, b"eth0\0"));
        info.clear();
        info.extend(attribute(1, b"veth\0"));
        wanted.extend(attribute(18, &info));
        let twice = [link(&all), link(&all)].concat();
        let kept = keep::<IFINFOMSG>(&twice, OF_LINK);
        assert_eq!(kept, Some([link(&wanted), link(&wanted)].concat()));
    }

    #[test]
    fn what_is_cut_short_is_no_answer() {
        assert_eq!(keep::<IFINFOMSG>(&link(&[])[..20], OF_LINK), None);
        assert_eq!(keep::<IFINFOMSG>(&link(&[9, 0, 3, 0]), OF_LINK), None);
        assert_eq!(keep::<IFINFOMSG>(&[1, 2], OF_LINK), None);
        assert_eq!(keep::<IFINFOMSG>(&[], OF_LINK), Some(vec![]));
    }

    #[test]
    fn this_machine_has_a_loopback_interface() {
        let Ok(Answer::Bytes(links)) = ask(&Call::new("route/getlink", [])) else {
            panic!("no links");
        };
        assert!(links.windows(3).any(|w| w == b"lo\0"));
        assert!(matches!(
            ask(&Call::new("route/getaddr", [])),
            Ok(Answer::Bytes(_))
        ));
    }

    proptest::proptest! {
        #[test]
        fn no_reply_makes_it_panic(bytes: Vec<u8>) {
            let _ = keep::<IFADDRMSG>(&bytes, OF_ADDRESS);
            let _ = keep::<IFINFOMSG>(&link(&bytes), OF_LINK);
        }
    }
}
