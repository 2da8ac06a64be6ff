//! Panics that are caught and reported as what they are, a bug, without the standard message on the terminal.

use std::cell::Cell;
use std::panic::{self, UnwindSafe};
use std::sync::Once;

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`; where it panics, gives the message. A fuzzer sees the panic itself.
pub fn catch<T>(f: impl FnOnce() -> T + UnwindSafe) -> Result<T, String> {
    if cfg!(fuzzing) {
        return Ok(f());
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !CATCHING.get() {
                usual(info);
            }
        }));
    });
    CATCHING.set(true);
    let outcome = panic::catch_unwind(f);
    CATCHING.set(false);
    outcome.map_err(|payload| {
        payload
            .downcast_ref::<&str>()
            .map(|s| (*s).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without a message".into())
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_message_comes_back() {
        assert_eq!(super::catch(|| 1), Ok(1));
        let word = String::from("lid");
        assert_eq!(
            super::catch(|| -> i32 { panic!("bad {word}") }),
            Err("bad lid".into())
        );
    }
}
