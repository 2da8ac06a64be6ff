//! PortInfo of InfiniBand ports: what width and speed they support.
//!
//! sysfs has what is in use only. PortInfo is read by smpquery(8) of infiniband-diags, from the port itself (a directed route of no
//! hops), which needs access to /dev/infiniband/umad*.

use std::time::Duration;

use super::{Ask, Probe, device, whole_number};
use crate::fact::port::{MAX_RATE, MAX_WIDTH};
use crate::fact::{BitRate, Fact, Facts, Gap, Id};

/// The probe. A port that does not answer takes smpquery three tries of a second each.
pub const PROBE: Probe = Probe::new("portinfo", run).within(Duration::from_secs(5));

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    for port in device::ports(ask, facts, node).0 {
        let layer = ask.text(format!("{}/link_layer", port.dir));
        match layer {
            Fact::Known(layer, _) if &*layer == "InfiniBand" => {}
            // The rate of other ports comes from ethtool, which also says why it is missing.
            _ => continue,
        }
        let info = port_info(ask, &port.device, port.number);
        facts.set(port.id, MAX_WIDTH, info.clone().map(|info| info.width));
        facts.set(port.id, MAX_RATE, info.map(PortInfo::rate));
    }
}

fn port_info(ask: &Ask<'_>, device: &str, port: u64) -> Fact<PortInfo> {
    // Opening a umad device does not load its module, but smpquery's words would be about a missing file.
    match ask.exists("/sys/class/infiniband_mad") {
        Fact::Known(true, _) => {
            let port = port.to_string();
            ask.command(
                &["smpquery", "-C", device, "-P", &port, "-D", "portinfo", "0"],
                PortInfo::parse,
            )
        }
        Fact::Known(false, origin) => {
            Fact::Unknown(Gap::not_asked("ib_umad is not loaded", origin))
        }
        Fact::Unknown(gap) => Fact::Unknown(gap),
    }
}

/// The rates that a port supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PortInfo {
    /// Lanes.
    width: u64,
    /// Units of 100 Mb/s a lane, as the kernel's sysfs `rate` counts.
    lane: u64,
}

/// Speeds a lane: the words of libibmad (`mad_dump_linkspeed*`), and the units of 100 Mb/s that `rate_show` of the kernel's
/// drivers/infiniband/core/sysfs.c counts them as.
const SPEEDS: [(&str, u64); 8] = [
    ("2.5 Gbps", 25),
    ("5.0 Gbps", 50),
    ("10.0 Gbps", 100),
    ("14.0625 Gbps", 140),
    ("25.78125 Gbps", 250),
    ("53.125 Gbps", 500),
    ("106.25 Gbps", 1000),
    ("212.5 Gbps", 2000),
];

/// `IB_PORT_EXTENDED_SPEEDS2_SUP` of CapabilityMask2 (include/rdma/ib_verbs.h): XDR is told of in fields of its own.
const EXTENDED_SPEEDS2: u64 = 1 << 11;

impl PortInfo {
    /// Reads the output of `smpquery portinfo`: `Name:....value`, lists joined by " or ".
    fn parse(text: &str) -> Result<Self, String> {
        let field = |name: &str| {
            let value = text.lines().find_map(|line| {
                let rest = line.strip_prefix(name)?.strip_prefix(':')?;
                Some(rest.trim_start_matches('.').trim())
            });
            value.ok_or_else(|| format!("no {name} in it"))
        };
        let mut width = 0;
        for word in list(field("LinkWidthSupported")?) {
            let lanes = word.strip_suffix('X').and_then(|n| n.parse().ok());
            width = width.max(lanes.ok_or_else(|| format!("{word:?} is not a link width"))?);
        }
        let mut lane = 0;
        for name in [
            "LinkSpeedSupported",
            "LinkSpeedExtSupported",
            "LinkSpeedExtSupported2",
        ] {
            let value = match field(name) {
                // An smpquery that does not know of these speeds prints nothing, and the port may have them.
                Err(_) if name.ends_with('2') => match field("CapabilityMask2").map(whole_number) {
                    Ok(Ok(mask)) if mask & EXTENDED_SPEEDS2 == 0 => continue,
                    Err(_) => continue,
                    Ok(Ok(_)) => {
                        return Err("this smpquery does not show the port's highest speeds".into());
                    }
                    Ok(Err(e)) => return Err(e),
                },
                value => value?,
            };
            for word in list(value).filter(|word| *word != "0") {
                let speed = SPEEDS.iter().find(|(words, _)| *words == word);
                lane = lane.max(
                    speed
                        .ok_or_else(|| format!("{word:?} is not a link speed"))?
                        .1,
                );
            }
        }
        match (width, lane) {
            (0, _) | (_, 0) => Err("no supported link width or speed".to_owned()),
            _ => Ok(PortInfo { width, lane }),
        }
    }

    /// The rate at full width and speed, as the kernel's sysfs `rate` writes it.
    fn rate(self) -> BitRate {
        BitRate(self.width * self.lane * 100_000_000)
    }
}

/// The members of a list, without the remark that libibmad puts behind some.
fn list(value: &str) -> impl Iterator<Item = &str> {
    value.trim_end_matches(" (IBA extension)").split(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::Subject;
    use crate::probe::testing::{known, run};

    /// smpquery of rdma-core 44 asking ibsim 0.10, a fabric of 4xHDR.
    const IBSIM: &str = "\
# Port info: DR path slid 65535; dlid 65535; 0 port 0
Mkey:............................<not displayed>
GidPrefix:.......................0x0000000000000000
Lid:.............................0
SMLid:...........................0
CapMask:.........................0x50c048
				IsTrapSupported
				IsSLMappingSupported
				IsExtendedSpeedsSupported
				IsCapabilityMask2Supported
				IsVendorClassSupported
				IsCapabilityMaskNoticeSupported
DiagCode:........................0x0000
MkeyLeasePeriod:.................4089
LocalPort:.......................1
LinkWidthEnabled:................1X or 4X
LinkWidthSupported:..............1X or 4X or 8X or 12X or 2X
LinkWidthActive:.................4X
LinkSpeedSupported:..............2.5 Gbps or 5.0 Gbps or 10.0 Gbps
LinkState:.......................Initialize
PhysLinkState:...................LinkUp
LinkDownDefState:................Polling
ProtectBits:.....................0
LMC:.............................0
LinkSpeedActive:.................10.0 Gbps
LinkSpeedEnabled:................2.5 Gbps or 5.0 Gbps or 10.0 Gbps
NeighborMTU:.....................2048
SMSL:............................0
VLCap:...........................VL0-7
InitType:........................0x00
VLHighLimit:.....................0
VLArbHighCap:....................8
VLArbLowCap:.....................8
InitReply:.......................0x00
MtuCap:..........................2048
VLStallCount:....................7
HoqLife:.........................0
OperVLs:.........................VL0-7
PartEnforceInb:..................0
PartEnforceOutb:.................0
FilterRawInb:....................0
FilterRawOutb:...................0
MkeyViolations:..................0
PkeyViolations:..................0
QkeyViolations:..................0
GuidCap:.........................32
ClientReregister:................0
McastPkeyTrapSuppressionEnabled:.0
SubnetTimeout:...................31
RespTimeVal:.....................0
LocalPhysErr:....................0
OverrunErr:......................0
MaxCreditHint:...................0
RoundTrip:.......................0
CapabilityMask2:.................0x30
				IsLinkWidth2xSupported
				IsLinkSpeedHDRSupported
LinkSpeedExtActive:..............53.125 Gbps
LinkSpeedExtSupported:...........14.0625 Gbps or 25.78125 Gbps or 53.125 Gbps
LinkSpeedExtEnabled:.............14.0625 Gbps or 25.78125 Gbps or 53.125 Gbps
";

    /// The lines that are read, as ports of other kinds answer; the words are those of libibmad.
    fn answer(widths: &str, speeds: &str, extended: &str, rest: &str) -> String {
        format!(
            "# Port info: DR path slid 65535; dlid 65535; 0 port 0\n\
             LinkWidthSupported:..............{widths}\n\
             LinkSpeedSupported:..............{speeds}\n\
             {rest}LinkSpeedExtSupported:...........{extended}\n"
        )
    }

    const OLD: &str = "2.5 Gbps or 5.0 Gbps or 10.0 Gbps";
    const NDR: &str = "14.0625 Gbps or 25.78125 Gbps or 53.125 Gbps or 106.25 Gbps";

    #[test]
    fn output_of_a_simulated_port() {
        let info = PortInfo::parse(IBSIM).unwrap();
        // The simulator claims 12X.
        assert_eq!(
            info,
            PortInfo {
                width: 12,
                lane: 500
            }
        );
    }

    #[test]
    fn rates_are_written_as_the_kernel_writes_them() {
        for (widths, extended, rest, gb) in [
            ("1X or 4X", "0", "", 40),
            ("1X or 4X", "14.0625 Gbps", "", 56),
            (
                "1X or 4X",
                "14.0625 Gbps or 25.78125 Gbps",
                "CapabilityMask2:.................0x0000\n",
                100,
            ),
            (
                "1X or 4X or 2X",
                "14.0625 Gbps or 25.78125 Gbps or 53.125 Gbps",
                "",
                200,
            ),
            (
                "1X or 4X or 2X",
                NDR,
                "CapabilityMask2:.................0x0430\n",
                400,
            ),
            (
                "1X or 4X or 2X",
                NDR,
                "LinkSpeedExtSupported2:..........212.5 Gbps\nCapabilityMask2:.................0x1c30\n",
                800,
            ),
            (
                "1X or 4X or 2X",
                NDR,
                "LinkSpeedExtSupported2:..........0\n",
                400,
            ),
        ] {
            let info = PortInfo::parse(&answer(widths, OLD, extended, rest));
            assert_eq!(
                info.map(|i| i.rate()),
                Ok(BitRate(gb * 1_000_000_000)),
                "{extended} {rest}"
            );
        }
        let sdr = PortInfo::parse(&answer("1X", "2.5 Gbps", "0", ""));
        assert_eq!(sdr.map(|i| i.rate()), Ok(BitRate(2_500_000_000)));
    }

    #[test]
    fn what_may_hide_a_higher_speed_is_not_understood() {
        for text in [
            answer(
                "1X or 4X",
                OLD,
                NDR,
                "CapabilityMask2:.................0x1c30\n",
            ),
            answer("1X or 4X", OLD, "14.0625 Gbps or undefined (17)", ""),
            answer("undefined (64)", OLD, NDR, ""),
            answer("1X", "undefined (0)", "0", ""),
            String::new(),
            "LinkWidthSupported:..............1X or 4X\n".to_owned(),
        ] {
            assert!(PortInfo::parse(&text).is_err(), "{text}");
        }
        let extension = answer("4X (IBA extension)", "5.0 Gbps (IBA extension)", "0", "");
        assert_eq!(
            PortInfo::parse(&extension),
            Ok(PortInfo { width: 4, lane: 50 })
        );
    }

    const PORT: &[&str] = &[
        r#"{"q":{"list":"/sys/class/infiniband"},"names":["mlx5_0"]}"#,
        r#"{"q":{"list":"/sys/class/infiniband/mlx5_0/ports"},"names":["1"]}"#,
        r#"{"q":{"read":"/sys/class/infiniband/mlx5_0/ports/1/link_layer"},"text":"InfiniBand\n"}"#,
        r#"{"q":{"list":"/sys/class"},"names":["infiniband","infiniband_mad","infiniband_verbs"]}"#,
    ];

    #[test]
    fn a_port_and_its_gaps() {
        const ASKED: &str =
            r#"{"q":{"run":["smpquery","-C","mlx5_0","-P","1","-D","portinfo","0"]}"#;
        let text = serde_json::to_string(&answer("1X or 4X or 2X", OLD, NDR, "")).unwrap();
        let line = format!("{ASKED},\"text\":{text}}}");
        let (facts, _) = run(&PROBE, &[PORT, &[&line]].concat());
        assert_eq!(known(&facts, Subject::Port, "mlx5_0/1", MAX_WIDTH), Some(4));
        assert_eq!(
            known(&facts, Subject::Port, "mlx5_0/1", MAX_RATE),
            Some(BitRate(400_000_000_000))
        );
        for (refused, why) in [
            (r#""refused":"command-missing""#, "command not installed"),
            (
                r#""refused":"command-failed 255: smpquery: iberror: failed: Failed to open 'mlx5_0' port '1'""#,
                "command ended",
            ),
        ] {
            let line = format!("{ASKED},{refused}}}");
            let (facts, _) = run(&PROBE, &[PORT, &[&line]].concat());
            let port = facts.all(Subject::Port).next().unwrap();
            let Fact::Unknown(gap) = facts.get(port, MAX_RATE) else {
                panic!()
            };
            assert!(gap.to_string().starts_with(why), "{gap}");
        }
    }

    #[test]
    fn ethernet_ports_are_left_alone_and_no_umad_is_a_gap() {
        let mut lines = PORT.to_vec();
        lines[3] = r#"{"q":{"list":"/sys/class"},"names":["infiniband"]}"#;
        let (facts, _) = run(&PROBE, &lines);
        let port = facts.all(Subject::Port).next().unwrap();
        let Fact::Unknown(gap) = facts.get(port, MAX_RATE) else {
            panic!()
        };
        assert_eq!(gap.why.to_string(), "not asked: ib_umad is not loaded");
        lines[2] = r#"{"q":{"read":"/sys/class/infiniband/mlx5_0/ports/1/link_layer"},"text":"Ethernet\n"}"#;
        let (facts, _) = run(&PROBE, &lines);
        let port = facts.all(Subject::Port).next().unwrap();
        assert!(facts.look(port, MAX_RATE.index).is_none());
    }

    proptest::proptest! {
        #[test]
        fn no_output_makes_it_panic(text: String) {
            let _ = PortInfo::parse(&text);
        }
    }
}
