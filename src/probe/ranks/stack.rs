//! Where a rank's Python program stands, as py-spy says it.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;

use crate::fact::Gap;
use crate::probe::Ask;
use crate::source::Question;

/// The innermost function of the person's own program, and the function of a library that it called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) struct Stack {
    function: Option<Arc<str>>,
    file: Option<Arc<str>>,
    #[serde(default)]
    line: u64,
    call: Option<Arc<str>>,
}

impl Stack {
    /// Asks for that of a process; `None` where its main thread runs no Python.
    pub(super) fn ask(ask: &Ask<'_>, pid: u32) -> Result<Option<Self>, Gap> {
        let question = Question::call("rank_stack", [("pid", u64::from(pid).into())]);
        let stack = ask.read::<Stack>(question).into_result()?;
        Ok(stack.function.is_some().then_some(stack))
    }
}

/// `all_reduce, called by step (train.py:88)`, `load (data.py:7)`
impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let function = self.function.as_deref().unwrap_or_default();
        let file = self.file.as_deref().unwrap_or_default();
        let file = file.rsplit('/').next().unwrap_or_default();
        let line = self.line;
        match &self.call {
            Some(call) => write!(f, "{call}, called by {function} ({file}:{line})"),
            None => write!(f, "{function} ({file}:{line})"),
        }
    }
}
