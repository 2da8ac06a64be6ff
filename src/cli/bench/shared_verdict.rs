//! How a measurement ends for each process that takes part.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cli::output;
use crate::cluster::session::Session;
use crate::examine::given::ExitOn;
use crate::exit::Exit;
use crate::measure::run::team::{NEXT, SLACK};
use crate::source::recording::Recording;

/// The end of a measurement.
pub enum MeasurementEnd {
    /// The recording of this node with all that was measured, the reason if nothing was, and the processes to tell the verdict.
    Here(Box<Recording>, Option<String>, SharedVerdict),
    /// Rank 0 has the recording, or another process of this node acts for it: how this process exits.
    Elsewhere(Exit),
}

/// Brings the verdict to all processes that take part. They wait for it: some launchers end all processes when one ends.
pub struct SharedVerdict {
    /// `None` if the node is alone.
    pub(super) session: Option<Arc<Session>>,
    pub(super) exit_on: ExitOn,
}

impl SharedVerdict {
    /// For a node that is alone.
    pub fn alone() -> Self {
        SharedVerdict {
            session: None,
            exit_on: ExitOn::Rank0,
        }
    }

    /// Rank 0 tells it.
    pub fn say(&self, exit: Exit) {
        if let Some(session) = &self.session {
            // Departed nodes miss this; rank 0 has already told the launcher.
            let _ = session.of_rank_0("verdict", SLACK, json!(exit.code()));
        }
    }

    /// The others wait for it: their exit status.
    pub fn hear(&self) -> Exit {
        let Some(session) = &self.session else {
            return Exit::Healthy;
        };
        let heard = session.of_rank_0("verdict", NEXT, Value::Null);
        let code = heard.ok().and_then(|code| code.as_u64());
        self.exit_on.elsewhere(code)
    }

    /// Ends a measurement with this recording, or with the reason why nothing was measured.
    pub(super) fn end(self, recording: Recording, why: Option<String>) -> MeasurementEnd {
        let leads = self
            .session
            .as_ref()
            .is_none_or(|session| session.rank() == 0);
        if leads {
            return MeasurementEnd::Here(Box::new(recording), why, self);
        }
        if let Some(why) = why {
            output::say(&format!("nothing was measured: {why}"));
        }
        MeasurementEnd::Elsewhere(self.hear())
    }
}
