//! NVML's replies: an object from names of functions to their values.

use std::sync::Arc;

use serde_json::Value;

use crate::fact::{Fact, Gap, Origin, Why};
use crate::source::{Errno, Question, Refusal};

/// A reply, and the question that it is to.
#[derive(Clone)]
pub(super) struct NvmlReply {
    pub(super) value: Arc<Value>,
    pub(super) question: Question,
}

impl NvmlReply {
    /// Where facts of it come from.
    pub(super) fn origin(&self) -> Origin {
        Origin::Asked(self.question.clone())
    }

    /// All of it, to be read by the names of its members.
    pub(super) fn all(&self) -> ReplyObject<'_> {
        ReplyObject {
            said: self,
            value: Some(&self.value),
            path: "",
        }
    }

    /// The value of a function, if that is an object.
    pub(super) fn member<'s>(&'s self, function: &'s str) -> ReplyObject<'s> {
        ReplyObject {
            said: self,
            value: self.value.get(function),
            path: function,
        }
    }

    /// The name of the error that a function gave.
    pub(super) fn error(&self, function: &str) -> Option<&str> {
        self.value.get(function)?.get("error")?.as_str()
    }

    /// A number that a function gave.
    pub(super) fn number(&self, function: &str) -> Fact<u64> {
        self.all().number(function)
    }

    /// A text that a function gave.
    pub(super) fn text(&self, function: &str) -> Fact<Arc<str>> {
        self.all().text(function)
    }

    /// Whether a function said that it is not for this GPU, or that it is not there.
    pub(super) fn is_unsupported(&self, function: &str) -> bool {
        is_unsupported(self.error(function))
    }

    /// A gap for an error of this name.
    pub(super) fn refused(&self, name: &str) -> Gap {
        Gap::new(why(name), self.origin())
    }
}

/// Whether an error says that there is nothing to say.
pub(super) fn is_unsupported(error: Option<&str>) -> bool {
    matches!(
        error,
        Some("NotSupported" | "MissingSymbol" | "FunctionNotFound")
    )
}

/// Whether an error says that the GPU, its driver or the library failed (nvml.h, `nvmlReturn_t`).
pub(in crate::probe) fn is_damage(error: &str) -> bool {
    matches!(
        error,
        "Unknown"
            | "Timeout"
            | "IrqIssue"
            | "GpuIsLost"
            | "CorruptedInforom"
            | "OperatingSystem"
            | "ResetRequired"
    )
}

/// An object within a reply.
#[derive(Clone, Copy)]
pub(super) struct ReplyObject<'s> {
    said: &'s NvmlReply,
    value: Option<&'s Value>,
    /// The function that gave it.
    path: &'s str,
}

impl<'s> ReplyObject<'s> {
    /// An object, taken for a part of this reply.
    pub(super) fn within(said: &'s NvmlReply, value: &'s Value) -> Self {
        ReplyObject {
            said,
            value: Some(value),
            path: "",
        }
    }

    /// An object within this one.
    pub(super) fn member(self, name: &'s str) -> ReplyObject<'s> {
        ReplyObject {
            value: self.value.and_then(|value| value.get(name)),
            path: name,
            ..self
        }
    }

    /// The name of the error that stands here, or in a member.
    pub(super) fn error(self, name: &str) -> Option<&'s str> {
        self.value?.get(name)?.get("error")?.as_str()
    }

    fn get(self, name: &str) -> Result<&'s Value, Gap> {
        let missing =
            |name: &str| Gap::not_understood(&self.said.question, format!("no {name} in it"));
        let Some(value) = self.value else {
            return Err(missing(self.path));
        };
        // A function that failed has its error in the place of its object.
        for value in [Some(value), value.get(name)].into_iter().flatten() {
            if let Some(error) = value.get("error").and_then(Value::as_str) {
                return Err(self.said.refused(error));
            }
        }
        value.get(name).ok_or_else(|| missing(name))
    }

    fn read<T>(self, name: &str, read: impl Fn(&Value) -> Option<T>) -> Fact<T> {
        match self.get(name) {
            Ok(value) => match read(value) {
                Some(value) => Fact::Known(value, self.said.origin()),
                None => Fact::Unknown(Gap::not_understood(
                    &self.said.question,
                    format!("{name} is {value}"),
                )),
            },
            Err(gap) => Fact::Unknown(gap),
        }
    }

    /// A number.
    pub(super) fn number(self, name: &str) -> Fact<u64> {
        self.read(name, Value::as_u64)
    }

    /// A number that may be negative.
    pub(super) fn signed(self, name: &str) -> Fact<i64> {
        self.read(name, Value::as_i64)
    }

    /// A text.
    pub(super) fn text(self, name: &str) -> Fact<Arc<str>> {
        self.read(name, |value| value.as_str().map(Arc::from))
    }

    /// A list.
    pub(super) fn list(self, name: &str) -> Result<&'s [Value], Gap> {
        let value = self.get(name)?;
        match value.as_array() {
            Some(list) => Ok(list),
            None => Err(Gap::not_understood(
                &self.said.question,
                format!("{name} is not a list"),
            )),
        }
    }
}

/// NVML's errors in the kernel's terms if those say the same.
fn why(name: &str) -> Why {
    let errno = match name {
        "NotSupported" => Errno::EOPNOTSUPP,
        "NoPermission" => Errno::EPERM,
        "GpuIsLost" | "GpuNotFound" => Errno::ENODEV,
        "Timeout" => Errno::ETIMEDOUT,
        "InUse" => Errno::EBUSY,
        "Memory" => Errno::ENOMEM,
        "MissingSymbol" | "FunctionNotFound" => {
            return Why::Refused(Refusal::SymbolMissing("this function of NVML".into()));
        }
        name => return Why::NotUnderstood(format!("NVML says: {}", words(name)).into()),
    };
    Why::Refused(Refusal::Errno(errno))
}

/// An error in NVML's own words.
pub(in crate::probe) fn words(name: &str) -> Arc<str> {
    const WORDS: &[(&str, &[&str])] = include!(concat!(env!("OUT_DIR"), "/nvml_errors.words.rs"));
    match WORDS.iter().find(|(known, _)| *known == name) {
        Some((_, words)) => words.concat().into(),
        None => format!("error {name}").into(),
    }
}
