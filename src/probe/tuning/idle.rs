//! The CPU's idle states (Documentation/admin-guide/pm/cpuidle.rst).

use std::sync::Arc;

use super::CPU;
use crate::fact::{Fact, Origin, Seconds, present};
use crate::probe::{Ask, whole_number};
use crate::source::Question;

/// How long waking from the deepest state takes that the first CPU may enter.
///
/// All CPUs have the same states, and tools disable one on all of them: the first represents the rest.
pub(super) fn latency(ask: &Ask<'_>) -> Fact<Seconds> {
    let dir = format!("{CPU}/cpu0/cpuidle");
    // Without a driver in a virtual machine, or with `idle=poll`.
    let (names, origin) = present!(ask.names_if_any(dir.as_str()), or Seconds(0.0));
    let mut deepest: (u64, Origin) = (0, origin);
    let mut missing = None;
    let states: Vec<&Arc<str>> = names.iter().filter(|n| n.starts_with("state")).collect();
    for state in states {
        let latency = ask.parse(format!("{dir}/{state}/latency"), whole_number);
        let disabled = ask.parse(format!("{dir}/{state}/disable"), whole_number);
        match (latency, disabled) {
            (Fact::Known(latency, origin), Fact::Known(0, _)) if latency > deepest.0 => {
                deepest = (latency, origin);
            }
            (Fact::Known(..), Fact::Known(..)) => {}
            (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => missing = Some(gap),
        }
    }
    let micros = |us: u64| Seconds(us as f64 * 1e-6);
    if deepest.0 == 0 && missing.is_none() {
        return Fact::Known(Seconds(0.0), deepest.1);
    }
    // A daemon such as tuned holds a request for a low latency, which rules deeper states out without disabling them.
    let wanted = ask.value(Question::call("cpu_dma_latency", []));
    let wanted =
        wanted.and_then(|value| value.as_u64().ok_or("it is not a number of µs".to_owned()));
    match (wanted, missing) {
        (Fact::Known(wanted, origin), None) if wanted < deepest.0 => {
            Fact::Known(micros(wanted), origin)
        }
        (Fact::Known(..), None) => Fact::Known(micros(deepest.0), deepest.1),
        (_, Some(gap)) | (Fact::Unknown(gap), _) => Fact::Unknown(gap),
    }
}
