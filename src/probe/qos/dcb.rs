//! The reply to `DCB_CMD_IEEE_GET`: structures and numbers of include/uapi/linux/dcbnl.h, which is ABI.

use crate::source::netlink::{Attributes, messages, u16_at, u32_at};

const DCB_ATTR_IEEE: u16 = 13;
const DCB_ATTR_DCBX: u16 = 14;
const DCB_ATTR_IEEE_ETS: u16 = 1;
const DCB_ATTR_IEEE_PFC: u16 = 2;
const DCB_ATTR_IEEE_APP_TABLE: u16 = 3;
const DCB_ATTR_IEEE_PEER_PFC: u16 = 5;
const DCB_ATTR_DCB_BUFFER: u16 = 10;
/// Since Linux 6.2.
const DCB_ATTR_DCB_APP_TRUST_TABLE: u16 = 11;
/// `IEEE_8021QAZ_APP_SEL_DSCP`
const SELECTOR_DSCP: u8 = 5;
/// `DCB_APP_SEL_PCP`
const SELECTOR_PCP: u8 = 255;
/// `DCB_CAP_DCBX_HOST`
const DCBX_HOST: u8 = 1;

/// Priorities, traffic classes, buffers: there are eight of each.
pub(in crate::probe) const EIGHT: usize = 8;

/// A device's data centre bridging; `None` if the driver does not report it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::probe) struct Dcb {
    /// The priorities with PFC.
    pub(in crate::probe) pfc: Option<Vec<u8>>,
    /// The priorities with PFC that the switch announces.
    pub(in crate::probe) peer_pfc: Option<Vec<u8>>,
    /// How bandwidth is shared out.
    pub(in crate::probe) ets: Option<Ets>,
    /// The priority of each DSCP that has an entry.
    pub(in crate::probe) dscp: Vec<(u8, u8)>,
    /// Selectors in the order in which the device trusts them.
    pub(in crate::probe) trust: Option<Vec<u8>>,
    /// Buffers.
    pub(in crate::probe) buffers: Option<Buffers>,
    /// Whether the host, not the firmware, negotiates.
    pub(in crate::probe) host: Option<bool>,
}

/// `struct ieee_ets`, what of it is in force for sending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::probe) struct Ets {
    /// Percent of the bandwidth of each traffic class.
    pub(in crate::probe) share: [u8; EIGHT],
    /// Algorithm of each traffic class: 0 strict, 1 credit-based shaper, 2 ETS, 255 the vendor's.
    pub(in crate::probe) algorithm: [u8; EIGHT],
    /// The traffic class of each priority.
    pub(in crate::probe) class: [u8; EIGHT],
}

/// `struct dcbnl_buffer`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::probe) struct Buffers {
    /// The buffer of each priority.
    pub(in crate::probe) of_priority: [u8; EIGHT],
    /// Bytes of each buffer.
    pub(in crate::probe) size: [u32; EIGHT],
}

impl Dcb {
    /// Reads the reply's one message.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let message = messages::<4>(bytes)
            .next()
            .ok_or_else(|| "an empty reply".to_owned())??;
        let attributes = message.attributes;
        let Some(ieee) = attributes.nested(DCB_ATTR_IEEE)? else {
            return Err("no IEEE 802.1Qaz attributes in it".to_owned());
        };
        let host = match attributes.find(DCB_ATTR_DCBX)? {
            Some([mode, ..]) => Some(mode & DCBX_HOST != 0),
            _ => None,
        };
        let mut dscp = Vec::new();
        if let Some(table) = ieee.nested(DCB_ATTR_IEEE_APP_TABLE)? {
            for entry in table.each() {
                // struct dcb_app: selector, priority, protocol of 16 bits.
                if let (_, [SELECTOR_DSCP, priority, dscp_low, 0]) = entry?
                    && *dscp_low < 64
                    && usize::from(*priority) < EIGHT
                {
                    dscp.push((*dscp_low, *priority));
                }
            }
        }
        Ok(Dcb {
            pfc: pfc(ieee, DCB_ATTR_IEEE_PFC)?,
            peer_pfc: pfc(ieee, DCB_ATTR_IEEE_PEER_PFC)?,
            ets: ieee.find(DCB_ATTR_IEEE_ETS)?.map(Ets::read).transpose()?,
            dscp,
            trust: match ieee.nested(DCB_ATTR_DCB_APP_TRUST_TABLE)? {
                Some(table) => Some(
                    table
                        .each()
                        .filter_map(|entry| match entry {
                            Ok((_, [selector])) => Some(Ok(*selector)),
                            Ok(_) => None,
                            Err(what) => Some(Err(what)),
                        })
                        .collect::<Result<_, _>>()?,
                ),
                None => None,
            },
            buffers: ieee
                .find(DCB_ATTR_DCB_BUFFER)?
                .map(Buffers::read)
                .transpose()?,
            host,
        })
    }

    /// Whether a packet's DSCP decides over its priority; `None` if nothing says it.
    ///
    /// mlx5 has no trust table: it trusts DSCP from the first entry of the application table that names one until the last one is
    /// deleted, and PCP otherwise (`mlx5e_dcbnl_ieee_setapp`, `mlx5e_dcbnl_ieee_delapp`).
    pub(super) fn trusts_dscp(&self, mlx5: bool) -> Option<bool> {
        match &self.trust {
            Some(order) => {
                let place = |wanted| order.iter().position(|selector| *selector == wanted);
                Some(match (place(SELECTOR_DSCP), place(SELECTOR_PCP)) {
                    (Some(dscp), Some(pcp)) => dscp < pcp,
                    (dscp, _) => dscp.is_some(),
                })
            }
            None if !self.dscp.is_empty() => Some(true),
            None => mlx5.then_some(false),
        }
    }
}

impl Ets {
    fn read(bytes: &[u8]) -> Result<Self, String> {
        // willing, ets_cap, cbs, tc_tx_bw[8], tc_rx_bw[8], tc_tsa[8], prio_tc[8], and what is recommended.
        let eight = |at: usize| bytes.get(at..at + EIGHT)?.try_into().ok();
        match (eight(3), eight(19), eight(27)) {
            (Some(share), Some(algorithm), Some(class)) => Ok(Ets {
                share,
                algorithm,
                class,
            }),
            _ => Err(format!("ETS has {} bytes", bytes.len())),
        }
    }
}

impl Buffers {
    fn read(bytes: &[u8]) -> Result<Self, String> {
        let of_priority = bytes.get(..EIGHT).and_then(|b| b.try_into().ok());
        let mut size = [0; EIGHT];
        for (at, size) in size.iter_mut().enumerate() {
            *size = u32_at(bytes, EIGHT + 4 * at)
                .ok_or_else(|| format!("the buffers have {} bytes", bytes.len()))?;
        }
        match of_priority {
            Some(of_priority) => Ok(Buffers { of_priority, size }),
            None => Err(format!("the buffers have {} bytes", bytes.len())),
        }
    }
}

/// `struct ieee_pfc`: pfc_cap, then a bit for each priority.
fn pfc(ieee: Attributes<'_>, number: u16) -> Result<Option<Vec<u8>>, String> {
    let Some(bytes) = ieee.find(number)? else {
        return Ok(None);
    };
    // The delay that follows tells a whole structure from a cut one.
    match (bytes.get(1), u16_at(bytes, 4)) {
        (Some(bits), Some(_)) => Ok(Some((0..8).filter(|p| bits >> p & 1 == 1).collect())),
        _ => Err(format!("PFC has {} bytes", bytes.len())),
    }
}

#[cfg(test)]
pub(in crate::probe) mod testing {
    //! Replies built for tests, as mlx5 gives them.

    use crate::source::testing::{attribute, message};

    /// PFC on these priorities, these entries of DSCP and priority, the mode of DCBX.
    pub(in crate::probe) fn reply(netdev: &str, pfc: u8, dscp: &[(u8, u8)], dcbx: u8) -> Vec<u8> {
        let mut name = netdev.as_bytes().to_vec();
        name.push(0);
        let mut ets = vec![0, 8, 0];
        ets.extend([0; 16]);
        ets.extend([255; 8]);
        ets.extend([1, 0, 2, 3, 4, 5, 6, 7]);
        ets.extend([0; 24]);
        let mut pfc_bytes = vec![8, pfc, 0, 0, 0, 0, 0, 0];
        pfc_bytes.extend([0; 128]);
        let apps: Vec<u8> = dscp
            .iter()
            .flat_map(|(dscp, priority)| attribute(1, &[5, *priority, *dscp, 0]))
            .collect();
        let mut buffers = vec![0; 8];
        for (priority, buffer) in buffers.iter_mut().enumerate() {
            *buffer = pfc >> priority & 1;
        }
        for size in [156_096u32, 102_144, 0, 0, 0, 0, 0, 0, 258_240] {
            buffers.extend(size.to_le_bytes());
        }
        let ieee = [
            attribute(1, &ets),
            attribute(2, &pfc_bytes),
            attribute(10, &buffers),
            attribute(3, &apps),
        ]
        .concat();
        let body = [
            &[0, 21, 0, 0][..],
            &attribute(1, &name),
            &attribute(13, &ieee),
            &attribute(14, &[dcbx]),
        ]
        .concat();
        message(78, &body)
    }
}

#[cfg(test)]
mod tests {
    use super::testing::reply;
    use super::*;
    use crate::source::testing::{attribute, message};

    #[test]
    fn what_mlx5_says() {
        let bytes = reply("eth2", 0b1000, &[(26, 3), (48, 6)], 0x0d);
        let dcb = Dcb::read(&bytes).unwrap();
        assert_eq!(dcb.pfc, Some(vec![3]));
        assert_eq!(dcb.peer_pfc, None);
        assert_eq!(dcb.dscp, [(26, 3), (48, 6)]);
        assert_eq!(dcb.host, Some(true));
        assert_eq!(dcb.trusts_dscp(true), Some(true));
        let ets = dcb.ets.as_ref().unwrap();
        assert_eq!((ets.algorithm[0], ets.class[0], ets.class[1]), (255, 1, 0));
        let buffers = dcb.buffers.as_ref().unwrap();
        assert_eq!((buffers.of_priority[3], buffers.size[1]), (1, 102_144));
        for cut in 1..bytes.len() {
            assert!(Dcb::read(&bytes[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn without_an_entry_of_a_dscp_only_mlx5_is_known_to_trust_pcp() {
        let dcb = Dcb::read(&reply("eth2", 0, &[], 0x0c)).unwrap();
        assert_eq!(dcb.trusts_dscp(true), Some(false));
        assert_eq!(dcb.trusts_dscp(false), None);
        assert_eq!(dcb.host, Some(false));
    }

    #[test]
    fn a_trust_table_decides() {
        let trust = |selectors: &[u8]| {
            let table: Vec<u8> = selectors.iter().flat_map(|s| attribute(1, &[*s])).collect();
            let ieee = attribute(11, &table);
            let body = [&[0, 21, 0, 0][..], &attribute(13, &ieee)].concat();
            Dcb::read(&message(78, &body)).unwrap().trusts_dscp(false)
        };
        assert_eq!(trust(&[5]), Some(true));
        assert_eq!(trust(&[255, 5]), Some(false));
        assert_eq!(trust(&[5, 255]), Some(true));
        assert_eq!(trust(&[255]), Some(false));
        assert_eq!(trust(&[]), Some(false));
    }

    #[test]
    fn odd_structures_are_errors() {
        let with = |number: u16, payload: &[u8]| {
            let ieee = attribute(number, payload);
            let body = [&[0, 21, 0, 0][..], &attribute(13, &ieee)].concat();
            Dcb::read(&message(78, &body))
        };
        assert!(with(1, &[0; 10]).is_err());
        assert!(with(2, &[8]).is_err());
        assert!(with(10, &[0; 12]).is_err());
        assert!(with(99, &[1]).is_ok());
        assert!(Dcb::read(&[]).is_err());
        assert!(Dcb::read(&message(78, &[0, 21, 0, 0])).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_reply_makes_it_panic(bytes: Vec<u8>, at in 0usize..300, byte: u8) {
            let _ = Dcb::read(&bytes);
            let mut bytes = reply("eth2", 8, &[(26, 3)], 1);
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            let _ = Dcb::read(&bytes);
        }
    }
}
