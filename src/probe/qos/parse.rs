//! How drivers write what they force, and configfs what rdma_cm begins with.

use crate::fact::port::CmaMode;
use crate::probe::is_not;

/// `tc/N/traffic_class`: a line `Global tclass=106` if one is forced on all connections, then lines of single
/// addresses (`src_ip=…,tclass=…`); nothing if none is forced.
pub(super) fn forced_class(text: &str) -> Result<Option<u64>, String> {
    let mut forced = None;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix("Global tclass=") {
            Some(class) => {
                let class: u8 = class.parse().map_err(|_| is_not(line, "a traffic class"))?;
                forced = Some(u64::from(class));
            }
            None if line.contains("tclass=") => {
                // Rules for single addresses do not count if one is forced on all.
                if forced.is_none() {
                    return Err(format!(
                        "it has rules for single addresses: {}",
                        is_not(line, "a class of all")
                    ));
                }
            }
            None => return Err(is_not(line, "a traffic class")),
        }
    }
    Ok(forced)
}

/// `default_roce_mode`
pub(super) fn roce_mode(text: &str) -> Result<CmaMode, String> {
    match text {
        "RoCE v2" => Ok(CmaMode::V2),
        "IB/RoCE v1" => Ok(CmaMode::V1),
        _ => Err(is_not(text, "a kind of RoCE")),
    }
}

/// `ecn/roce_np/enable/N`
pub(super) fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(is_not(text, "0 or 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forced() {
        assert_eq!(forced_class(""), Ok(None));
        assert_eq!(forced_class("Global tclass=106\n"), Ok(Some(106)));
        assert_eq!(forced_class("Global tclass=0"), Ok(Some(0)));
        let rule = "src_ip=10.0.0.1,tclass=5";
        assert_eq!(
            forced_class(&format!("Global tclass=160\n{rule}\n")),
            Ok(Some(160))
        );
        for bad in [
            rule,
            "Global tclass=300",
            "Global tclass=-1",
            "106",
            "Global tclass=",
        ] {
            assert!(forced_class(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn modes_and_switches() {
        assert_eq!(roce_mode("RoCE v2"), Ok(CmaMode::V2));
        assert_eq!(roce_mode("IB/RoCE v1"), Ok(CmaMode::V1));
        assert!(roce_mode("").is_err() && roce_mode("iWARP").is_err());
        assert_eq!((on_or_off("1"), on_or_off("0")), (Ok(true), Ok(false)));
        assert!(on_or_off("yes").is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text: String) {
            let _ = (forced_class(&text), roce_mode(&text), on_or_off(&text));
        }
    }
}
