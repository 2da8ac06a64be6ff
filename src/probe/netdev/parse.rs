//! How the kernel writes network devices' attributes (`Documentation/ABI/testing/sysfs-class-net`) and routes.

use std::sync::Arc;

use crate::fact::port::OperState;
use crate::fact::{BitRate, Bytes};
use crate::probe::is_not;

/// `operstate`
pub(super) fn operstate(text: &str) -> Result<OperState, String> {
    OperState::from_word(text).ok_or_else(|| is_not(text, "an operational state"))
}

/// `mtu`
pub(super) fn mtu(text: &str) -> Result<Bytes, String> {
    text.parse().map(Bytes).map_err(|_| is_not(text, "an MTU"))
}

/// `speed` in Mb/s; -1, and the same as an unsigned number, if the driver does not know.
pub(super) fn speed(text: &str) -> Result<BitRate, String> {
    match text.parse::<i64>() {
        Ok(-1) | Ok(0) | Ok(0xffff_ffff) => Err(format!("{text}: the driver does not know")),
        Ok(n) => u64::try_from(n)
            .ok()
            .and_then(|n| n.checked_mul(1_000_000))
            .map(BitRate)
            .ok_or_else(|| is_not(text, "a speed")),
        Err(_) => Err(is_not(text, "a speed")),
    }
}

/// The devices of the default routes in /proc/net/route, in order, each once.
pub(super) fn default_routes(text: &str) -> Result<Arc<[Arc<str>]>, String> {
    /// RTF_UP (`include/uapi/linux/route.h`)
    const UP: u64 = 1;
    /// RTF_REJECT
    const REJECT: u64 = 0x200;
    let mut lines = text.lines();
    if !lines.next().is_some_and(|head| head.starts_with("Iface")) {
        return Err("it does not begin with the names of its columns".to_owned());
    }
    let mut found: Vec<Arc<str>> = Vec::new();
    for line in lines {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [device, destination, _, flags, _, _, _, mask, ..] = fields[..] else {
            return Err(format!("{line:?} is not a route"));
        };
        let number =
            |hex| u64::from_str_radix(hex, 16).map_err(|_| format!("{line:?} is not a route"));
        let flags = number(flags)?;
        let default = number(destination)? == 0 && number(mask)? == 0;
        if default
            && flags & UP == UP
            && flags & REJECT == 0
            && !found.iter().any(|f| **f == *device)
        {
            found.push(device.into());
        }
    }
    Ok(found.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";

    #[test]
    fn routes() {
        let text = format!(
            "{HEAD}bond0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
             ib0\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n\
             bond0\t00000000\t010200C1\t0003\t0\t0\t200\t00000000\t0\t0\t0\n\
             *\t00000000\t00000000\t0200\t0\t0\t4096\t00000000\t0\t0\t0\n\
             tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0"
        );
        let found = default_routes(&text).unwrap();
        assert_eq!(&*found, &[Arc::from("bond0")]);
        assert!(default_routes(HEAD).unwrap().is_empty());
        assert!(default_routes("").is_err(), "an empty file says nothing");
        assert!(default_routes(&format!("{HEAD}eth0 00000000")).is_err());
        assert!(default_routes(&format!("{HEAD}eth0 x y 0003 0 0 0 z 0 0 0")).is_err());
    }

    #[test]
    fn attributes() {
        assert_eq!(speed("200000"), Ok(BitRate(200_000_000_000)));
        for bad in ["-1", "", "4294967295", "speed", "0", "-7"] {
            assert!(speed(bad).is_err(), "{bad}");
        }
        assert_eq!(operstate("lowerlayerdown"), Ok(OperState::LowerLayerDown));
        assert!(operstate("UP").is_err() && mtu("mtu").is_err());
    }
}
