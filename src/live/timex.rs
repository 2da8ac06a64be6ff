//! The kernel's clock, as it says itself whether it is synchronised.

use serde_json::json;

use crate::source::{Answer, Refusal};

/// Answers `adjtimex` without arguments: it reads, and sets nothing (adjtimex(2), `modes` = 0).
#[expect(unsafe_code, reason = "no wrapper of adjtimex(2) is in the tree")]
pub fn ask() -> Result<Answer, Refusal> {
    // SAFETY: a timex is plain numbers, for which zeros are valid; `modes` = 0 asks and changes nothing.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a timex of the size that the C library expects, which lives during the call.
    let state = unsafe { libc::adjtimex(&raw mut timex) };
    if state < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(Answer::from(json!({
        "state": state,
        "status": timex.status,
        "seconds": timex.time.tv_sec,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_answers() {
        let Ok(Answer::Value(value)) = ask() else {
            panic!("anyone may read the clock")
        };
        assert!(value["status"].as_i64().is_some());
    }
}
