//! A sentence in a report's JSON: its text, and its parts for programs that read names and values.

use serde::{Serialize, Serializer};

use super::{Name, Sentence, Span};

/// The text and the parts of a sentence.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SaidJson {
    /// Observed and expected values; behind a premise if that is not known to be met.
    sentence: String,
    /// The parts of the sentence: their texts, one after the other, are the sentence.
    spans: Vec<SpanJson>,
}

/// A part of a sentence.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SpanJson {
    /// `text`, `nodes` (of which the rest is said), `node`, `each-node`, `name`, `value`, `quote`, `command`, `path`, `place` (in a log), or
    /// `may-end`: before the first of these stands what is never left out.
    kind: &'static str,
    /// As it stands in the sentence.
    text: String,
    /// Of a name: what it names, as conditions do.
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'static str>,
    /// Of a name: what tells it from others of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// Of a value: `b/s`, `B`, `s`, `/s` or `%`, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'static str>,
    /// Of a command: its line for a shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<String>,
}

impl SpanJson {
    fn of(span: &Span) -> Self {
        let (subject, key) = match span {
            Span::Name(Name { subject, key, .. }) => (Some(*subject), Some(key.to_string())),
            _ => (None, None),
        };
        SpanJson {
            kind: span.kind(),
            text: span.to_string(),
            subject,
            key,
            unit: match span {
                Span::Value(_, unit) => *unit,
                _ => None,
            },
            line: match span {
                Span::Command(command) => Some(command.text().to_owned()),
                _ => None,
            },
        }
    }
}

/// Writes a sentence as `sentence` and `spans` of the object around it.
pub(crate) fn flattened<S: Serializer>(
    sentence: &Sentence,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let said = SaidJson {
        sentence: sentence.to_string(),
        spans: sentence.spans().iter().map(SpanJson::of).collect(),
    };
    said.serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sentence::shell::Command;

    #[derive(Serialize)]
    struct Around {
        #[serde(flatten, serialize_with = "flattened")]
        sentence: Sentence,
    }

    #[test]
    fn the_texts_of_the_parts_are_the_sentence() {
        let gpu = Name {
            called: Some("GPU 2".into()),
            ..Name::of_key("gpu", "0000:29:00.0")
        };
        let sentence: Sentence = [
            Span::On("2 of 3 nodes (n[1-2])".into()),
            Span::Name(gpu),
            Span::Text(" copies at ".into()),
            Span::Value("12 Gb/s".into(), Some("b/s")),
            Span::MayEnd,
            Span::Text(": ".into()),
            Span::Command(Command::of_words(["lspci", "-s", "a b"])),
        ]
        .into_iter()
        .collect();
        let json = serde_json::to_value(Around {
            sentence: sentence.clone(),
        });
        let json = json.unwrap();
        assert_eq!(json["sentence"], sentence.to_string());
        let spans = json["spans"].as_array().unwrap();
        let texts: String = spans
            .iter()
            .map(|span| span["text"].as_str().unwrap())
            .collect();
        assert_eq!(texts, sentence.to_string());
        assert_eq!(spans[1]["key"], "0000:29:00.0");
        assert_eq!(spans[1]["subject"], "gpu");
        assert_eq!(spans[3]["unit"], "b/s");
        assert_eq!(spans[4]["kind"], "may-end");
        assert_eq!(spans[6]["line"], "lspci -s 'a b'");
        assert_eq!(spans[0].get("key"), None);
    }
}
