//! How a measurement ends, for each process that took part.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{NEXT, SLACK};
use crate::cli::bench::measuring;
use crate::cli::together::ExitOn;
use crate::cluster::session::Session;
use crate::cluster::session_steps::StepAudience;
use crate::exit::Exit;
use crate::source::recording::Recording;

/// What came of a measurement.
pub enum Made {
    /// The recording of this node with all that was measured; why nothing was, where nothing was; and whom to tell the verdict.
    Here(Box<Recording>, Option<String>, Verdict),
    /// Rank 0 has it, or another process of this node acts for it: how this one ends.
    Elsewhere(Exit),
}

/// How the verdict comes to all that took part: they wait for it, since some launchers end all where one ends.
#[derive(Clone)]
pub struct Verdict {
    /// `None` where the node is alone.
    pub(super) session: Option<Arc<Session>>,
    pub(super) exit_on: ExitOn,
}

impl Verdict {
    /// Of a node that is alone.
    pub fn alone() -> Self {
        Verdict {
            session: None,
            exit_on: ExitOn::Rank0,
        }
    }

    /// Rank 0 says it.
    pub fn say(&self, exit: Exit) {
        if let Some(session) = &self.session {
            let code = json!(exit.code());
            // Who is gone does not hear it, and rank 0 has said it to who started it.
            let _ = session.exchange("verdict", &[], StepAudience::Rank0, SLACK, code);
        }
    }

    /// The others hear it: how they end.
    pub(super) fn hear(&self) -> Exit {
        let Some(session) = &self.session else {
            return Exit::Healthy;
        };
        let heard = session.exchange("verdict", &[], StepAudience::Rank0, NEXT, Value::Null);
        let code = heard.ok().and_then(|all| all.values.get(&0)?.as_u64());
        self.exit_on.elsewhere(code)
    }

    /// The end of a measurement: rank 0 has it.
    pub(super) fn made(self, recording: Recording, why: Option<String>) -> Made {
        let leads = self
            .session
            .as_ref()
            .is_none_or(|session| session.rank() == 0);
        if leads {
            return Made::Here(Box::new(recording), why, self);
        }
        if let Some(why) = why {
            measuring::say(&format!("nothing was measured: {why}"));
        }
        Made::Elsewhere(self.hear())
    }
}
