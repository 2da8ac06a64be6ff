//! A TCP connection to an own address of each interface, as the ranks of one node make them. Nothing leaves the node: the kernel delivers to own
//! addresses by itself.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::ptr;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Failed, Late, said, try_each};
use crate::source::{Errno, Refusal};

/// How long a connection may take: the kernel asks a second time after one second.
const CONNECT: Duration = Duration::from_secs(3);
/// The most addresses that are tried.
const MOST: usize = 64;

/// An interface and one of its addresses.
pub(super) type InterfaceAddress = (String, IpAddr);

/// Connects to the first address of each interface that is up; a last element says how many were left out.
pub(super) fn each_address() -> Result<Value, Refusal> {
    let mut places = addresses()?;
    places.retain(|(name, _)| !is_of_router(name));
    let left_out = places.len().saturating_sub(MOST);
    places.truncate(MOST);
    let tried = try_each(places.clone(), |(_, address), at| connect(*address, at));
    let named = places.iter().zip(tried).map(|((name, _), ended)| {
        let mut value = match ended.map(said) {
            Ok(Ok(value)) => value,
            Ok(Err(refusal)) => json!({ "refused": refusal.to_string() }),
            // A thread that got no processor in its time is no fault of the network.
            Err(Late(step)) => json!({ "refused": format!("it did not end in time: {step}") }),
        };
        value["interface"] = json!(name);
        value
    });
    let more = (left_out > 0).then(|| json!({ "left_out": left_out }));
    Ok(named.chain(more).collect())
}

fn connect(address: IpAddr, at: &dyn Fn(&'static str)) -> Result<(), Failed> {
    at("listen");
    let listener = TcpListener::bind((address, 0)).map_err(|error| match address {
        // An address of IPv6 is not yet one while the kernel looks for another owner.
        IpAddr::V6(_) if error.raw_os_error() == Some(Errno::EADDRNOTAVAIL.0) => {
            let why = "its address is not confirmed yet";
            Failed::refused("listen")(Refusal::not_asked(why))
        }
        _ => Failed::by_errno("listen")(error),
    })?;
    let place = listener.local_addr().map_err(Failed::by_errno("listen"))?;
    at("connect");
    let mut near = match TcpStream::connect_timeout(&place, CONNECT) {
        Ok(stream) => stream,
        Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
            return Err(Failed::refused("connect")(Refusal::Errno(Errno::ETIMEDOUT)));
        }
        Err(error) => return Err(Failed::by_errno("connect")(error)),
    };
    at("accept");
    let (mut far, _) = listener.accept().map_err(Failed::by_errno("accept"))?;
    let patience = far.set_read_timeout(Some(CONNECT));
    patience.map_err(Failed::by_errno("accept"))?;
    at("send");
    let mut came = [0; 1];
    let sent = near.write_all(&[0x5a]);
    sent.map_err(Failed::by_errno("send"))?;
    let read = far.read_exact(&mut came);
    read.map_err(Failed::by_errno("receive"))?;
    match came {
        [0x5a] => Ok(()),
        _ => Err(Failed::wrong(1)),
    }
}

/// Whether an interface belongs to a virtual router: its address is none of this process's.
#[expect(clippy::disallowed_methods, reason = "an attribute of an interface")]
pub(super) fn is_of_router(name: &str) -> bool {
    let master = std::fs::read_to_string(format!("/sys/class/net/{name}/master/uevent"));
    master.is_ok_and(|text| text.lines().any(|line| line == "DEVTYPE=vrf"))
}

/// The first address of each interface that is up, in the order of getifaddrs(3), which has IPv4 first. Link-local ones of IPv6 name no interface by themselves and are left out.
#[expect(unsafe_code, reason = "rustix has no getifaddrs")]
pub(super) fn addresses() -> Result<Vec<InterfaceAddress>, Refusal> {
    let mut list = ptr::null_mut();
    // SAFETY: `list` lives for the call.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    let mut places: Vec<InterfaceAddress> = Vec::new();
    let mut next = list;
    // SAFETY: the list is the library's until it is freed below; each entry is whole, its name ends with NUL, and its address has the size
    // that its family says.
    unsafe {
        while let Some(entry) = next.as_ref() {
            next = entry.ifa_next;
            let up = entry.ifa_flags & libc::IFF_UP.cast_unsigned() != 0;
            let Some(family) = entry.ifa_addr.as_ref().filter(|_| up) else {
                continue;
            };
            let address = match i32::from(family.sa_family) {
                libc::AF_INET => {
                    let four = ptr::read_unaligned(entry.ifa_addr.cast::<libc::sockaddr_in>());
                    IpAddr::from(Ipv4Addr::from(four.sin_addr.s_addr.to_ne_bytes()))
                }
                libc::AF_INET6 => {
                    let six = ptr::read_unaligned(entry.ifa_addr.cast::<libc::sockaddr_in6>());
                    let six = Ipv6Addr::from(six.sin6_addr.s6_addr);
                    if six.is_unicast_link_local() {
                        continue;
                    }
                    IpAddr::from(six)
                }
                _ => continue,
            };
            let name = std::ffi::CStr::from_ptr(entry.ifa_name).to_string_lossy();
            if !places.iter().any(|(other, _)| **other == *name) {
                places.push((name.into_owned(), address));
            }
        }
        libc::freeifaddrs(list);
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_own_address_is_reached_and_another_one_is_not_listened_on() {
        assert!(connect(Ipv4Addr::LOCALHOST.into(), &|_| {}).is_ok());
        // TEST-NET-1 (RFC 5737) is on no machine.
        let refused = said(connect(Ipv4Addr::new(192, 0, 2, 1).into(), &|_| {}));
        let expected = json!({ "step": "listen", "errno": "EADDRNOTAVAIL" });
        assert_eq!(refused, Ok(expected));
    }

    #[test]
    fn the_loopback_interface_is_listed_once() {
        let all = addresses().unwrap();
        let own = all.iter().filter(|(name, _)| name == "lo");
        assert_eq!(own.count(), 1);
    }
}
