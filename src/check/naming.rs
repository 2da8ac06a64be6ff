//! What a fact puts into a sentence: a thing by the name that tools use, a value with its unit, a text as a quotation.

use std::sync::Arc;

use crate::fact::{Facts, Id, Subject, Value, device, gpu};
use crate::sentence::{Name, Sentence, Span};

/// A sentence about an instance, in the making.
pub(super) struct SentenceDraft<'f> {
    facts: &'f Facts,
    /// The node of what the sentence is about.
    node: Option<Id>,
    spans: Vec<Span>,
    /// Whether an address goes by the name that tools use.
    names_tools_use: bool,
}

impl<'f> SentenceDraft<'f> {
    /// An empty one about an instance.
    pub(super) fn about(facts: &'f Facts, id: Id) -> Self {
        SentenceDraft {
            names_tools_use: true,
            facts,
            node: facts.ancestor(id, Subject::Node),
            spans: Vec::with_capacity(8),
        }
    }

    /// The same with addresses as they are, as commands and paths need them.
    pub(super) fn with_addresses(self) -> Self {
        SentenceDraft {
            names_tools_use: false,
            ..self
        }
    }

    /// Adds words of ours. In a parenthesis behind a name they follow its key.
    pub(super) fn words(&mut self, mut words: &str) {
        if let Some(Span::Name(name)) = self.spans.last_mut()
            && name.called.is_some()
            && let Some(inside) = words.strip_prefix(" (")
        {
            name.is_open = true;
            words = inside;
        }
        self.spans.push(Span::Text(words.to_owned().into()));
    }

    /// Adds a part as it is.
    pub(super) fn span(&mut self, span: Span) {
        self.spans.push(span);
    }

    /// Adds an instance by its name.
    pub(super) fn instance(&mut self, id: Id) {
        let name = self.facts.shared_name(id);
        match self.facts.subject(id) {
            Subject::Node | Subject::Host => self.span(Span::Node(name)),
            subject if self.has_address(&name) => {
                let rest = |rest: &str| Span::Name(Name::of_key(subject.name(), rest));
                self.addresses(&name, rest);
            }
            subject => self.span(Span::Name(Name::of_key(subject.name(), name))),
        }
    }

    /// Adds the value of a fact of this name.
    pub(super) fn value(&mut self, value: &Value, fact: &str) {
        let unit = match value {
            Value::Text(text) => return self.text(text, fact),
            Value::Sentence(sentence) => return self.sentence(sentence),
            Value::Texts(list) if !list.is_empty() => {
                for (at, text) in list.iter().enumerate() {
                    if at > 0 {
                        self.spans.push(Span::Text(", ".into()));
                    }
                    self.text(text, fact);
                }
                return;
            }
            Value::BitRate(_) => Some("b/s"),
            Value::Bytes(_) => Some("B"),
            Value::Seconds(_) => Some("s"),
            Value::PerSecond(_) => Some("/s"),
            Value::Percent(_) => Some("%"),
            _ => None,
        };
        self.span(Span::Value(value.to_string().into(), unit));
    }

    /// Adds a sentence that was worked out, with the names that tools use.
    fn sentence(&mut self, sentence: &Sentence) {
        for span in sentence.spans() {
            match span {
                Span::Text(text) if self.has_address(text) => {
                    self.addresses(text, |rest| Span::Text(rest.to_owned().into()));
                }
                span => self.spans.push(span.clone()),
            }
        }
    }

    fn text(&mut self, text: &Arc<str>, fact: &str) {
        let is_own_node = self
            .node
            .is_some_and(|node| *self.facts.name(node) == **text);
        // A line is quoted as it was logged.
        if fact != "line" && fact != "text" && self.has_address(text) {
            return self.addresses(text, |rest| Span::Quote(rest.into()));
        }
        self.span(if is_own_node {
            Span::Node(Arc::clone(text))
        } else if fact == "place" {
            Span::Place(Arc::clone(text))
        } else if text.starts_with('/') {
            Span::Path(Arc::clone(text))
        } else {
            Span::Quote(Arc::clone(text))
        });
    }

    /// Whether addresses in a text go by the names that tools use.
    fn has_address(&self, text: &str) -> bool {
        let is_within_word = match self.spans.last() {
            Some(Span::Text(before)) => before.ends_with(is_word_part),
            _ => false,
        };
        self.names_tools_use && text.contains(':') && !is_within_word
    }

    /// Adds a name or a value with each address in it by its name, and what is between them.
    fn addresses(&mut self, text: &str, rest: impl Fn(&str) -> Span) {
        let mut from = 0;
        let mut at = 0;
        for word in text.split_inclusive(|c: char| !is_word_part(c) && c != '.' && c != '-') {
            let address = word.trim_end_matches(|c: char| !c.is_alphanumeric());
            if let Some(name) = self.tools_name(address) {
                let before = &text[from..at];
                if !before.is_empty() {
                    self.spans.push(rest(before));
                }
                self.named(name);
                from = at + address.len();
            }
            at += word.len();
        }
        if from < text.len() {
            self.spans.push(rest(&text[from..]));
        }
    }

    fn named(&mut self, name: Name) {
        let is_gpu = name.subject == Subject::Gpu.name();
        if is_gpu {
            // The name says itself that it is a GPU.
            match self.spans.last_mut() {
                Some(Span::Text(before)) => {
                    if let Some(rest) = before.strip_suffix("GPU ") {
                        *before = rest.to_owned().into();
                    }
                }
                Some(Span::Quote(before) | Span::Name(Name { key: before, .. })) => {
                    if let Some(rest) = before.strip_suffix("GPU ") {
                        *before = rest.into();
                    }
                }
                _ => {}
            }
            if name.called.is_none() {
                self.spans.push(Span::Text("GPU ".into()));
            }
        }
        self.spans.push(Span::Name(name));
    }

    /// The name of the GPU or adapter that has this address: a GPU by its number for NVML and
    /// nvidia-smi, an adapter by its RDMA device.
    fn tools_name(&self, address: &str) -> Option<Name> {
        let node = self.node.filter(|_| address.contains(':'))?;
        let name = |subject: Subject, called: Option<Arc<str>>| Name {
            called,
            ..Name::of_key(subject.name(), address)
        };
        let mut gpus = self.facts.below(node, Subject::Gpu);
        if let Some(id) = gpus.find(|id| self.facts.name(*id) == address) {
            let index = self.facts.known(id, gpu::INDEX);
            let called = index.map(|index| format!("GPU {index}").into());
            return Some(name(Subject::Gpu, called));
        }
        let mut devices = self.facts.below(node, Subject::Device);
        let has_address = |id: &Id| {
            let known = self.facts.known(*id, device::PCI);
            known.is_some_and(|known| *known == *address)
        };
        let id = devices.find(has_address)?;
        let called = self.facts.shared_name(id);
        // Once is enough, and nothing where the device is named anyway.
        let is_named = |span: &Span| match span {
            Span::Name(other) => {
                other.key.contains(&*called) || other.called.as_ref() == Some(&called)
            }
            _ => false,
        };
        let is_new = !self.spans.iter().any(is_named);
        Some(name(Subject::Device, is_new.then_some(called)))
    }

    /// The parts of the sentence.
    pub(super) fn into_spans(self) -> Vec<Span> {
        self.spans
    }
}

/// Whether a letter belongs to a word that is not broken to name a part of it.
fn is_word_part(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '/' | '=' | ':' | '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::Origin;

    #[test]
    fn devices_have_the_names_that_tools_use() {
        let mut facts = Facts::new();
        let node = facts.new_node("n");
        let origin = Origin::derived("a test");
        let known = facts.instance(Subject::Gpu, node, "0000:19:00.0");
        facts.know(known, gpu::INDEX, 2, &origin);
        facts.instance(Subject::Gpu, node, "0000:4a:00.0");
        let adapter = facts.instance(Subject::Device, node, "mlx5_0");
        facts.know(adapter, device::PCI, "0000:18:00.0".into(), &origin);
        let software = facts.instance(Subject::Device, node, "rxe0");
        facts.know(software, device::PCI, "none".into(), &origin);
        let gpu = "GPU 2 (0000:19:00.0)";
        for (before, value, after, expected) in [
            (
                "it is ",
                "none of them",
                "",
                "it is none of them".to_owned(),
            ),
            ("", "0000:19:00.0", " is hot", format!("{gpu} is hot")),
            ("GPU ", "0000:19:00.0", " is hot", format!("{gpu} is hot")),
            (
                "",
                "rank 1 (GPU 0000:19:00.0)",
                "",
                format!("rank 1 ({gpu})"),
            ),
            ("", "0000:19:00.0 link 3", "", format!("{gpu} link 3")),
            (
                "",
                "0000:4a:00.0",
                " (10de:2330) is gone",
                "GPU 0000:4a:00.0 (10de:2330) is gone".to_owned(),
            ),
            (
                "",
                "0000:18:00.0 to 0000:18:00.0, 0000:17:00.0",
                "",
                "mlx5_0 (0000:18:00.0) to 0000:18:00.0, 0000:17:00.0".to_owned(),
            ),
            (
                "",
                "0000:19:00.0",
                " (10de:2330) is gone",
                "GPU 2 (0000:19:00.0, 10de:2330) is gone".to_owned(),
            ),
            (
                "/sys/",
                "0000:18:00.0",
                "/aer",
                "/sys/0000:18:00.0/aer".to_owned(),
            ),
            (
                "",
                "/sys/0000:18:00.0/aer",
                "",
                "/sys/0000:18:00.0/aer".to_owned(),
            ),
        ] {
            let said = |draft: SentenceDraft<'_>, fact: &str| {
                let mut draft = draft;
                draft.words(before);
                draft.value(&Value::Text(value.into()), fact);
                draft.words(after);
                Sentence::new(draft.into_spans()).to_string()
            };
            let draft = || SentenceDraft::about(&facts, node);
            assert_eq!(said(draft(), "what"), expected);
            // A line is quoted as it was logged, and a path is no sentence.
            let plain = format!("{before}{value}{after}");
            assert_eq!(said(draft(), "line"), plain);
            assert_eq!(said(draft().with_addresses(), "what"), plain);
        }
    }
}
