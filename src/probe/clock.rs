//! Clock synchronisation.

use crate::fact::{Fact, Facts, Gap, Id, Origin, Presence, node};
use crate::source::Question;

use super::{Ask, Probe};

/// The probe.
pub const PROBE: Probe = Probe::new("clock", run);

/// STA_UNSYNC (`include/uapi/linux/timex.h`).
const UNSYNCHRONISED: i64 = 0x40;

/// When this program was released, in seconds since 1970: `SOURCE_DATE_EPOCH` of its build, or a time before its first release.
const RELEASED: i64 = {
    let digits = env!("RDMA_DOCTOR_RELEASED").as_bytes();
    let (mut number, mut at) = (0, 0);
    while at < digits.len() {
        number = number * 10 + (digits[at] - b'0') as i64;
        at += 1;
    }
    number
};

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let timex = ask.value(Question::call("adjtimex", []));
    let before = timex
        .clone()
        .and_then(|value| Ok(super::member::<i64>(&value, "seconds")? < RELEASED));
    facts.set(node, node::CLOCK_BEFORE_RELEASE, before);
    let told = timex.and_then(|value| {
        let status: i64 = super::member(&value, "status")?;
        Ok(status & UNSYNCHRONISED == 0)
    });
    let synchronised = match told {
        // A daemon that synchronises the clock without telling the kernel may run here.
        Fact::Known(false, origin) => match keeper_that_tells_nothing(ask) {
            Ok(None) => Fact::Known(false, origin),
            Ok(Some(who)) => Fact::Unknown(Gap::not_said(who, origin)),
            Err(gap) => Fact::Unknown(gap),
        },
        other => other,
    };
    facts.set(node, node::CLOCK_SYNCHRONISED, synchronised);
    facts.set(node, node::MUNGE, ask.exists("/run/munge"));
}

/// chronyd clears the kernel's flag only if its configuration has `rtcsync`; the daemons of PTP never do.
fn keeper_that_tells_nothing(ask: &Ask<'_>) -> Result<Option<&'static str>, Gap> {
    let run: Fact<std::sync::Arc<[std::sync::Arc<str>]>> = ask.names("/run");
    let names = run.as_result().map_err(|gap| (*gap).clone())?;
    if names
        .iter()
        .any(|name| name.starts_with("ptp4l") || name.starts_with("phc2sys"))
    {
        return Ok(Some("PTP keeps the clock, and does not tell the kernel"));
    }
    if !names.iter().any(|name| &**name == "chrony") {
        return Ok(None);
    }
    for path in ["/etc/chrony/chrony.conf", "/etc/chrony.conf"] {
        match ask.text_if_any(path) {
            Presence::Present(text, Origin::Asked(_)) if has_rtcsync(&text) => return Ok(None),
            Presence::Present(..) | Presence::Absent(_) => {}
            Presence::Unknown(gap) => return Err(gap),
        }
    }
    Ok(Some(
        "chronyd runs, and without `rtcsync` it does not tell the kernel",
    ))
}

fn has_rtcsync(text: &str) -> bool {
    text.lines().any(|line| line.trim() == "rtcsync")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::testing::run;

    const SET: &str = r#"{"q":{"call":"adjtimex"},"value":{"state":5,"status":64,"offset":0,"maxerror":16000000,"esterror":16000000}}"#;
    const CLEAR: &str = r#"{"q":{"call":"adjtimex"},"value":{"state":0,"status":8193,"offset":0,"maxerror":25000,"esterror":100}}"#;
    const NOBODY: &str = r#"{"q":{"list":"/run"},"names":["lock","munge","user"]}"#;
    const CHRONY: &str = r#"{"q":{"list":"/run"},"names":["chrony","lock"]}"#;

    fn synchronised(lines: &[&str]) -> Option<bool> {
        let (facts, node) = run(&PROBE, lines);
        facts.known(node, node::CLOCK_SYNCHRONISED)
    }

    #[test]
    fn the_kernels_flag_counts_where_somebody_keeps_it() {
        assert_eq!(synchronised(&[CLEAR]), Some(true));
        assert_eq!(synchronised(&[SET, NOBODY]), Some(false));
        assert_eq!(
            synchronised(&[SET]),
            None,
            "the service that keeps the clock was not searched for"
        );
        let with = r#"{"q":{"read":"/etc/chrony/chrony.conf"},"text":"pool x iburst\nrtcsync\n"}"#;
        assert_eq!(synchronised(&[SET, CHRONY, with]), Some(false));
        let without =
            r#"{"q":{"read":"/etc/chrony/chrony.conf"},"text":"pool x iburst\n#rtcsync\n"}"#;
        let etc = r#"{"q":{"list":"/etc"},"names":["chrony"]}"#;
        let none = r#"{"q":{"read":"/etc/chrony.conf"},"errno":"ENOENT"}"#;
        assert_eq!(synchronised(&[SET, CHRONY, without, etc, none]), None);
        let ptp = r#"{"q":{"list":"/run"},"names":["phc2sys.12"]}"#;
        assert_eq!(synchronised(&[SET, ptp]), None);
    }

    #[test]
    fn munge() {
        let (facts, node) = run(&PROBE, &[CLEAR, NOBODY]);
        assert_eq!(facts.known(node, node::MUNGE), Some(true));
        let (facts, node) = run(&PROBE, &[r#"{"q":{"call":"adjtimex"},"errno":"EPERM"}"#]);
        assert_eq!(facts.known(node, node::MUNGE), None);
    }
}
