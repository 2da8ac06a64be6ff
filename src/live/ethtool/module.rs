//! Module memory. Netlink first: it reads modules of every kind by page, where the older ioctl knows SFF-8472 and SFF-8636 only
//! and makes some drivers log a CMIS module as an error.

use netlink_sys::protocols::NETLINK_GENERIC;
use serde_json::{Value, json};

use super::{Netdev, ioctl};
use crate::live::netlink::{Connection, NLM_F_DUMP};
use crate::source::netlink::{attribute, messages};
use crate::source::wire::to_hex;
use crate::source::{Errno, Refusal};

/// `struct genlmsghdr`: command, version, reserved.
const GENLMSGHDR: usize = 4;
/// The family whose messages tell of families (include/uapi/linux/genetlink.h).
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
/// include/uapi/linux/ethtool_netlink.h
const MODULE_EEPROM_GET: u8 = 31;
const EEPROM_HEADER: u16 = 1;
const EEPROM_OFFSET: u16 = 2;
const EEPROM_LENGTH: u16 = 3;
const EEPROM_PAGE: u16 = 4;
const EEPROM_I2C_ADDRESS: u16 = 6;
const EEPROM_DATA: u16 = 7;
const HEADER_DEV_NAME: u16 = 2;
/// The attribute holds attributes.
const NLA_F_NESTED: u16 = 1 << 15;
/// Where a module answers on its two-wire bus (SFF-8636 and CMIS; A0h of SFF-8472).
const I2C_ADDRESS: u8 = 0x50;
/// Half a page: a request may not cross from the lower half to the upper.
const HALF: u32 = 128;

/// The first 256 bytes (page 0), or what the ioctl gives: `{"hex", "type"}`, the type by ioctl only.
pub(super) fn read(netdev: &Netdev<'_>) -> Result<Value, Refusal> {
    match by_netlink(netdev) {
        // A kernel before 5.13, or one without ethtool netlink; a driver with neither says so again.
        Err(Refusal::Errno(Errno::EOPNOTSUPP | Errno::ENOENT)) => {
            let (kind, bytes) = ioctl::module_eeprom(netdev)?;
            Ok(json!({ "type": kind, "hex": to_hex(&bytes) }))
        }
        said => said.map(|bytes| json!({ "hex": to_hex(&bytes) })),
    }
}

fn by_netlink(netdev: &Netdev<'_>) -> Result<Vec<u8>, Refusal> {
    let connection = Connection::open(NETLINK_GENERIC)?;
    let families = connection.request(
        GENL_ID_CTRL,
        NLM_F_DUMP,
        // All families, since asking for one by name can load a module.
        &[CTRL_CMD_GETFAMILY, 1, 0, 0],
    )?;
    let family = family(&families, b"ethtool\0").ok_or(Refusal::Errno(Errno::ENOENT))?;
    let mut memory = Vec::with_capacity(256);
    for offset in [0, HALF] {
        let reply = connection.request(family, 0, &request(netdev, offset))?;
        let reply = messages::<GENLMSGHDR>(&reply).next();
        let data = reply.and_then(|reply| reply.ok()?.attributes.find(EEPROM_DATA).ok()?);
        let data = data.ok_or(Refusal::Errno(Errno::EPROTO))?;
        memory.extend_from_slice(data);
    }
    Ok(memory)
}

fn request(netdev: &Netdev<'_>, offset: u32) -> Vec<u8> {
    let name = [netdev.0.as_bytes(), &[0]].concat();
    let header = attribute(HEADER_DEV_NAME, &name);
    let attributes = [
        attribute(EEPROM_HEADER | NLA_F_NESTED, &header),
        attribute(EEPROM_OFFSET, &offset.to_le_bytes()),
        attribute(EEPROM_LENGTH, &HALF.to_le_bytes()),
        attribute(EEPROM_PAGE, &[0]),
        attribute(EEPROM_I2C_ADDRESS, &[I2C_ADDRESS]),
    ];
    [&[MODULE_EEPROM_GET, 1, 0, 0][..], &attributes.concat()].concat()
}

/// The number of a family in a dump of all.
fn family(dump: &[u8], name: &[u8]) -> Option<u16> {
    for message in messages::<GENLMSGHDR>(dump) {
        let attributes = message.ok()?.attributes;
        if attributes.find(CTRL_ATTR_FAMILY_NAME).ok()? == Some(name) {
            let id = attributes.find(CTRL_ATTR_FAMILY_ID).ok()??;
            return Some(u16::from_le_bytes(id.try_into().ok()?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_found_by_name() {
        let mut dump = Vec::new();
        for (id, name) in [(16u16, &b"nlctrl\0"[..]), (21, b"ethtool\0")] {
            let mut payload = vec![1, 2, 0, 0];
            payload.extend(attribute(CTRL_ATTR_FAMILY_NAME, name));
            payload.extend(attribute(CTRL_ATTR_FAMILY_ID, &id.to_ne_bytes()));
            dump.extend_from_slice(&((16 + payload.len()) as u32).to_ne_bytes());
            dump.extend_from_slice(&[0; 12]);
            dump.extend_from_slice(&payload);
        }
        assert_eq!(family(&dump, b"ethtool\0"), Some(21));
        assert_eq!(family(&dump, b"devlink\0"), None);
    }

    proptest::proptest! {
        #[test]
        fn no_reply_makes_it_panic(bytes: Vec<u8>) {
            let _ = family(&bytes, b"ethtool\0");
        }
    }
}
