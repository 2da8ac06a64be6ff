//! Network devices: link settings, module memory, error correction, offloads, pause settings and statistics, as ethtool(8) reads them.
//!
//! None changes anything: module memory needs `CAP_NET_ADMIN`, the others need no privilege.

mod ioctl;
mod module;
mod statistics;

use std::fs::File;
use std::io::Read;

use serde_json::json;

use crate::source::question::Call;
use crate::source::wire::to_hex;
use crate::source::{Answer, Errno, Refusal};

/// Answers `ethtool_link_settings`, `ethtool_module_eeprom`, `ethtool_fec`, `ethtool_offloads`, `ethtool_pause` and `ethtool_statistics`, each of one
/// netdev.
pub fn ask(call: &Call) -> Result<Answer, Refusal> {
    let netdev = call
        .text("netdev")
        .ok_or(Refusal::Errno(Errno::EINVAL))
        .and_then(Netdev::find)?;
    let value = match &*call.name {
        // `ETHTOOL_GLINKSETTINGS`. Bit n of a bitmap is bit n % 8 of byte n / 8.
        "ethtool_link_settings" => {
            let supported = ioctl::supported_link_modes(&netdev)?;
            Ok(json!({ "supported": to_hex(&supported) }))
        }
        "ethtool_module_eeprom" => module::read(&netdev),
        "ethtool_fec" => ioctl::fec(&netdev),
        "ethtool_offloads" => ioctl::offloads(&netdev),
        "ethtool_pause" => ioctl::pause(&netdev),
        "ethtool_statistics" => statistics::read(&netdev),
        name => Err(Refusal::unknown_call(name)),
    }?;
    Ok(Answer::from(value))
}

/// A network device that exists.
///
/// `SIOCETHTOOL` with the name of one that does not makes the kernel load a module of that name (`dev_load`), and so does
/// if_nametoindex(3); hence the only way to a request leads through the list of devices.
struct Netdev<'n>(&'n str);

impl<'n> Netdev<'n> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the list of this thread's network namespace"
    )]
    fn find(name: &'n str) -> Result<Self, Refusal> {
        // IFNAMSIZ is 16, with the NUL at its end.
        if name.is_empty() || name.len() > 15 || name.contains(['/', '\0', ':']) {
            return Err(Refusal::Errno(Errno::EINVAL));
        }
        let mut list = String::new();
        File::open("/proc/thread-self/net/dev")
            .and_then(|mut file| file.read_to_string(&mut list))?;
        match listed(&list, name) {
            true => Ok(Netdev(name)),
            false => Err(Refusal::Errno(Errno::ENODEV)),
        }
    }
}

/// Whether /proc/net/dev has a line of this device.
fn listed(list: &str, name: &str) -> bool {
    list.lines().skip(2).any(|line| {
        line.split_once(':')
            .is_some_and(|(device, _)| device.trim_start() == name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROC_NET_DEV: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:  123456     100    0    0    0     0          0         0   123456     100    0    0    0     0       0          0
enp65s0f0np0: 1 2    0    0    0     0          0         0   0     0    0    0    0     0       0          0
";

    #[test]
    fn devices_are_found_by_their_whole_name() {
        assert!(listed(PROC_NET_DEV, "lo"));
        assert!(listed(PROC_NET_DEV, "enp65s0f0np0"));
        assert!(!listed(PROC_NET_DEV, "enp65s0f0np"));
        assert!(!listed(PROC_NET_DEV, "face |bytes"));
    }

    #[test]
    fn a_name_that_could_load_a_module_never_reaches_the_ioctl() {
        let asked = |name: &str| {
            ask(&Call::new(
                "ethtool_link_settings",
                [("netdev", name.into())],
            ))
        };
        assert_eq!(asked("ib_core"), Err(Refusal::Errno(Errno::ENODEV)));
        assert_eq!(
            asked("sixteen-letters-"),
            Err(Refusal::Errno(Errno::EINVAL))
        );
        assert_eq!(asked(""), Err(Refusal::Errno(Errno::EINVAL)));
    }
}
