//! Which row of a RoCE port's GID table NCCL uses (`ncclIbGetGidIndex` of `src/transport/net_ib`).

use std::net::Ipv6Addr;

use super::number::decimal;
use crate::fact::gid::GidType;

/// A row in use. Rows of zeros are left out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GidRow {
    pub(crate) index: u64,
    pub(crate) address: Ipv6Addr,
    /// Its type; `None` if the kernel does not tell it here.
    pub(crate) kind: Option<GidType>,
}

/// `NCCL_IB_ADDR_FAMILY`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Four,
    Six,
}

/// The parameters of the search for a GID.
#[derive(Clone, Debug)]
pub(crate) struct GidRequest {
    pub(crate) family: Family,
    /// `NCCL_IB_ROCE_VERSION_NUM`
    pub(crate) version: i64,
    /// `NCCL_IB_ADDR_RANGE`
    pub(crate) range: Option<(Ipv6Addr, u32)>,
}

impl GidRequest {
    /// Of the variables' texts.
    pub(crate) fn new(family: Option<&str>, version: Option<i64>, range: Option<&str>) -> Self {
        let family = match family {
            Some("AF_INET6") => Family::Six,
            _ => Family::Four,
        };
        GidRequest {
            family,
            version: version.unwrap_or(2),
            range: range.and_then(|range| parse_range(range, family)),
        }
    }
}

/// `10.1.0.0/16`; without a slash, or where the address is not of the family, there is no range.
fn parse_range(text: &str, family: Family) -> Option<(Ipv6Addr, u32)> {
    let (address, length) = text.split_once('/')?;
    let length = u32::try_from(decimal(length)).ok()?;
    match family {
        Family::Four => {
            let address: std::net::Ipv4Addr = address.parse().ok()?;
            // Of the row's address the last 32 bits are compared.
            Some((address.to_ipv6_mapped(), length.min(32) + 96))
        }
        Family::Six => Some((address.parse().ok()?, length.min(128))),
    }
}

fn family(address: Ipv6Addr) -> Family {
    let s = address.segments();
    let multicast = s[..6] == [0xff0e, 0, 0, 0, 0, 0xffff];
    if address.to_ipv4_mapped().is_some() || multicast {
        Family::Four
    } else {
        Family::Six
    }
}

fn is_link_local(address: Ipv6Addr) -> bool {
    address.segments()[..4] == [0xfe80, 0, 0, 0]
}

fn valid(address: Ipv6Addr) -> bool {
    !address.is_unspecified() && !is_link_local(address)
}

/// The version of RoCE; -1 stands if it cannot be read.
fn number(kind: Option<GidType>) -> i64 {
    match kind {
        Some(GidType::V1) => 1,
        Some(GidType::V2) => 2,
        None => -1,
    }
}

fn in_range(range: Option<(Ipv6Addr, u32)>, family: Family, address: Ipv6Addr) -> bool {
    let Some((wanted, length)) = range else {
        return true;
    };
    let (wanted, address) = (u128::from(wanted), u128::from(address));
    let low: u128 = match family {
        Family::Four => u128::from(u32::MAX),
        Family::Six => u128::MAX,
    };
    let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0) & low;
    wanted & mask == address & mask
}

/// The index that the search ends at. A type that cannot be read is no version, or an error.
pub(crate) fn search(rows: &[GidRow], wish: &GidRequest, skips: bool) -> Result<u64, String> {
    let zero = GidRow {
        index: 0,
        address: Ipv6Addr::UNSPECIFIED,
        kind: Some(GidType::V1),
    };
    let mut current = rows
        .iter()
        .find(|row| row.index == 0)
        .copied()
        .unwrap_or(zero);
    for row in rows.iter().filter(|row| row.index > 0) {
        let inside = in_range(wish.range, wish.family, row.address);
        let is = family(row.address);
        if is != wish.family || !inside {
            continue;
        }
        if is != family(current.address) {
            current = *row;
        } else if valid(row.address) {
            let (now, then) = (number(current.kind), number(row.kind));
            if !skips && (now < 0 || then < 0) {
                return Err(format!("the type of GID {} cannot be read", row.index));
            }
            let better = now != then || !valid(current.address);
            if better && then == wish.version {
                current = *row;
            }
        }
    }
    Ok(current.index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use GidType::{V1, V2};

    fn rows(rows: &[(&str, GidType)]) -> Vec<GidRow> {
        let row = |(index, (address, kind)): (usize, &(&str, GidType))| GidRow {
            index: index as u64,
            address: address.parse().unwrap(),
            kind: Some(*kind),
        };
        let rows = rows.iter().enumerate().map(row);
        rows.filter(|row| !row.address.is_unspecified()).collect()
    }

    const USUAL: [(&str, GidType); 4] = [
        ("fe80::1", V1),
        ("fe80::1", V2),
        ("::ffff:10.0.0.1", V1),
        ("::ffff:10.0.0.1", V2),
    ];

    fn found(table: &[(&str, GidType)], wish: &GidRequest) -> u64 {
        search(&rows(table), wish, true).unwrap()
    }

    #[test]
    fn the_usual_table_gives_3() {
        assert_eq!(found(&USUAL, &GidRequest::new(None, None, None)), 3);
        assert_eq!(found(&USUAL, &GidRequest::new(None, Some(1), None)), 2);
    }

    #[test]
    fn of_several_addresses_the_first_of_version_2_wins_unless_a_range_says_otherwise() {
        let more = [
            &USUAL[..],
            &[("::ffff:10.9.0.1", V1), ("::ffff:10.9.0.1", V2)],
        ]
        .concat();
        assert_eq!(found(&more, &GidRequest::new(None, None, None)), 3);
        let wish = GidRequest::new(None, None, Some("10.9.0.0/16"));
        assert_eq!(found(&more, &wish), 5);
        let odd = GidRequest::new(None, None, Some("10.9.0.0"));
        assert_eq!(found(&more, &odd), 3, "a range has a slash");
    }

    #[test]
    fn a_table_of_ipv6_addresses_only_stays_at_0() {
        let six = [
            ("fe80::1", V1),
            ("fe80::1", V2),
            ("fd00::1", V1),
            ("fd00::1", V2),
        ];
        assert_eq!(found(&six, &GidRequest::new(None, None, None)), 0);
        assert_eq!(
            found(&six, &GidRequest::new(Some("AF_INET6"), None, None)),
            3
        );
        assert_eq!(found(&six, &GidRequest::new(Some("inet6"), None, None)), 0);
    }

    #[test]
    fn without_a_version_2_row_the_first_ipv4_row_stays() {
        assert_eq!(found(&USUAL[..3], &GidRequest::new(None, None, None)), 2);
        assert_eq!(found(&[], &GidRequest::new(None, None, None)), 0);
    }

    #[test]
    fn a_row_of_another_network_namespace() {
        let mut table = rows(&USUAL);
        table[2].kind = None;
        let wish = GidRequest::new(None, None, None);
        assert!(search(&table, &wish, false).is_err());
        assert_eq!(search(&table, &wish, true), Ok(3));
    }
}
