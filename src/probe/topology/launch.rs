//! The launcher of this process, by its variables.

use std::sync::Arc;

use crate::fact::Fact;
use crate::launch;
use crate::probe::Ask;
use crate::source::Question;

/// The launch in words: "Slurm: rank 0 of 6, 3 nodes"; "none" if nothing says that an engine started the process.
pub(super) fn launch(ask: &Ask<'_>) -> Fact<Arc<str>> {
    let names: Vec<&str> = launch::numbers().collect();
    let environment = ask.value(Question::env(&names));
    let said = environment.and_then(|all| {
        let text = |name: &str| all.get(name)?.as_str().map(str::to_owned);
        launch::read(text).map_err(|error| error.to_string())
    });
    let Fact::Known(launch, _) = said else {
        return said.map(|_| "none".into());
    };
    match launch {
        None => Fact::derived("none".into(), "environment without an engine's variables"),
        Some(launch) => {
            let by: Vec<&str> = launch.from.iter().map(|(name, _)| *name).collect();
            Fact::derived(
                launch.words().into(),
                format!("environment {}", by.join(", ")),
            )
        }
    }
}
