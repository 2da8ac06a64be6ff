//! Which device and port a measurement uses, and which of its addresses: as NCCL chooses it.

use std::net::Ipv6Addr;
use std::path::Path;
use std::rc::Rc;

use serde_json::Value;

use super::address::mtu_bytes;
use super::failure::LibraryCall;
use super::library::context::Context;
use super::library::pair::LocalEndpoint;
use crate::fact::gid::GidType;
use crate::live::failure::Failure;
use crate::live::nccl_files::names;
use crate::live::verbs::port_request::PortRequest;
use crate::measure::plan::reply::Carried;
use crate::nccl_rules::gid;

/// Where the kernel lists RDMA devices.
const DEVICES: &str = "/sys/class/infiniband";

/// An open port.
pub(crate) struct Port {
    pub(crate) context: Rc<Context>,
    pub(crate) device: String,
    pub(crate) number: u8,
    pub(crate) ethernet: bool,
    pub(crate) lid: u16,
    pub(crate) gid_index: u8,
    pub(crate) gid: Ipv6Addr,
    /// `enum ibv_mtu`
    pub(crate) mtu: u32,
    /// Bytes of a message at most.
    pub(crate) longest: u64,
}

/// Reads a file of sysfs.
#[expect(clippy::disallowed_methods, reason = "an attribute of a port")]
fn attribute(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

/// `mlx5_0/1`, `mlx5_0:1` as NCCL writes it, or `mlx5_0`, whose first port is meant.
pub(crate) fn device_and_port(text: &str) -> Option<(&str, u8)> {
    match text.split_once(['/', ':']) {
        Some((device, port)) => Some((device, port.parse().ok().filter(|port| *port > 0)?)),
        None => Some((text, 1)),
    }
}

/// The first active port, by name.
fn first_active() -> Option<(String, u8)> {
    names(Path::new(DEVICES)).into_iter().find_map(|device| {
        let ports = names(format!("{DEVICES}/{device}/ports").as_ref());
        let mut ports = ports.iter().filter_map(|port| port.parse().ok());
        let active = |port: &u8| {
            let state = attribute(&format!("{DEVICES}/{device}/ports/{port}/state"));
            state.is_some_and(|state| state.starts_with("4:"))
        };
        let port = ports.find(active)?;
        Some((device, port))
    })
}

/// The rows of a port's GID table that are in use, in their order.
fn gid_rows(device: &str, port: u8) -> Vec<gid::GidRow> {
    let base = format!("{DEVICES}/{device}/ports/{port}");
    let mut rows: Vec<gid::GidRow> = names(format!("{base}/gids").as_ref())
        .iter()
        .filter_map(|name| {
            let address: Ipv6Addr = attribute(&format!("{base}/gids/{name}"))?.parse().ok()?;
            if address.is_unspecified() {
                return None;
            }
            let kind = attribute(&format!("{base}/gid_attrs/types/{name}"));
            Some(gid::GidRow {
                index: name.parse().ok()?,
                address,
                kind: kind.and_then(|kind| match kind.as_str() {
                    "IB/RoCE v1" => Some(GidType::V1),
                    "RoCE v2" => Some(GidType::V2),
                    _ => None,
                }),
            })
        })
        .collect();
    rows.sort_by_key(|row| row.index);
    rows
}

/// The row that is used, and its address.
fn choose_gid(
    rows: &[gid::GidRow],
    wish: &PortRequest,
    like: &gid::GidRequest,
) -> Result<(u8, Ipv6Addr), String> {
    let index = match wish.gid_index {
        Some(index) => u64::from(index),
        None => gid::search(rows, like, true)?,
    };
    let row = rows.iter().find(|row| row.index == index);
    match (u8::try_from(index), row) {
        (Ok(index), Some(row)) => Ok((index, row.address)),
        _ => Err(format!("GID {index} is not in use")),
    }
}

fn named(what: &str, error: impl Into<String>) -> Failure {
    Failure::new(what, error)
}

impl Port {
    /// This end of a connection over the port.
    pub(crate) fn near(&self, wish: &PortRequest, first_packet: u32) -> LocalEndpoint {
        LocalEndpoint {
            port: self.number,
            gid_index: self.gid_index,
            pkey_index: wish.pkey_index,
            service_level: wish.service_level,
            traffic_class: wish.traffic_class,
            first_packet,
        }
    }

    /// Opens the port that the place names, or else the first active one.
    ///
    /// # Errors
    ///
    /// None is active, or the device, the port or its address cannot be had.
    pub(crate) fn open(
        device: Option<&str>,
        wish: &PortRequest,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Failure> {
        let (device, number) = match device {
            Some(text) => {
                let (device, port) = device_and_port(text)
                    .ok_or_else(|| named("verbs", format!("{text} is not a device and port")))?;
                (device.to_owned(), port)
            }
            None => first_active().ok_or_else(|| named("verbs", "no RDMA port is active"))?,
        };
        let context = Context::open(&device).in_call("ibv_open_device", &device)?;
        let port = format!("{device}/{number}");
        let said = context
            .query_port(number)
            .in_call("ibv_query_port", &port)?;
        let field = |name: &str| said.get(name).and_then(Value::as_u64).unwrap_or(0);
        // IBV_PORT_ACTIVE
        if field("state") != 4 {
            return Err(named("ibv_query_port", format!("{port} is not active")));
        }
        // IBV_LINK_LAYER_ETHERNET
        let ethernet = field("link_layer") == 2;
        let rows = gid_rows(&device, number);
        let version = variable("NCCL_IB_ROCE_VERSION_NUM").and_then(|text| text.parse().ok());
        let like = gid::GidRequest::new(
            variable("NCCL_IB_ADDR_FAMILY").as_deref(),
            version,
            variable("NCCL_IB_ADDR_RANGE").as_deref(),
        );
        let chosen = match ethernet {
            true => choose_gid(&rows, wish, &like),
            // Only between subnets the address counts: each port has it in its first row.
            false => {
                let first = rows.iter().find(|row| row.index == 0);
                Ok((0, first.map_or(Ipv6Addr::UNSPECIFIED, |row| row.address)))
            }
        };
        let (gid_index, gid) = chosen.map_err(|error| named("GID", format!("{port}: {error}")))?;
        Ok(Port {
            context: Rc::new(context),
            device,
            number,
            ethernet,
            lid: u16::try_from(field("lid")).unwrap_or(0),
            gid_index,
            gid,
            mtu: u32::try_from(field("active_mtu")).unwrap_or(0),
            longest: field("max_msg_sz"),
        })
    }

    /// Its description: `mlx5_0/1 GID 3 MTU 4096`.
    pub(crate) fn describe(&self) -> String {
        let address = match self.ethernet {
            true => format!("GID {}", self.gid_index),
            false => format!("LID {}", self.lid),
        };
        let mtu = mtu_bytes(self.mtu);
        format!("{}/{} {address} MTU {mtu}", self.device, self.number)
    }

    /// The port's current counters.
    pub(crate) fn traffic_counters(&self) -> Carried {
        let base = format!("{DEVICES}/{}/ports/{}", self.device, self.number);
        let count =
            |name: &str| -> Option<u64> { attribute(&format!("{base}/{name}"))?.parse().ok() };
        let words = |name: &str| count(name)?.checked_mul(4);
        // Soft-RoCE counts packets only, and elsewhere.
        let packets = |name: &str, soft: &str| count(name).or_else(|| count(soft));
        Carried {
            sent_bytes: words("counters/port_xmit_data"),
            received_bytes: words("counters/port_rcv_data"),
            sent_packets: packets("counters/port_xmit_packets", "hw_counters/sent_pkts"),
            received_packets: packets("counters/port_rcv_packets", "hw_counters/rcvd_pkts"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ports() {
        assert_eq!(device_and_port("mlx5_0/2"), Some(("mlx5_0", 2)));
        assert_eq!(device_and_port("mlx5_0:1"), Some(("mlx5_0", 1)));
        assert_eq!(device_and_port("rxe0"), Some(("rxe0", 1)));
        assert_eq!(device_and_port("mlx5_0/0"), None);
        assert_eq!(device_and_port("mlx5_0/x"), None);
    }

    #[test]
    fn the_row_is_nccls_unless_one_is_named() {
        let row = |index, address: &str, kind| gid::GidRow {
            index,
            address: address.parse().unwrap(),
            kind: Some(kind),
        };
        let rows = [
            row(0, "fe80::1", GidType::V1),
            row(1, "fe80::1", GidType::V2),
            row(2, "::ffff:10.0.0.1", GidType::V1),
            row(3, "::ffff:10.0.0.1", GidType::V2),
        ];
        let like = gid::GidRequest::new(None, None, None);
        let mut wish = PortRequest::new(&Default::default(), |_| None).unwrap();
        assert_eq!(choose_gid(&rows, &wish, &like).unwrap().0, 3);
        wish.gid_index = Some(1);
        let (index, address) = choose_gid(&rows, &wish, &like).unwrap();
        assert_eq!((index, address), (1, "fe80::1".parse().unwrap()));
        wish.gid_index = Some(9);
        assert_eq!(
            choose_gid(&rows, &wish, &like).unwrap_err(),
            "GID 9 is not in use"
        );
    }
}
