//! GPUs in sentences: by their number for NVML and nvidia-smi, and their address.

use crate::fact::{Facts, Id, Subject, gpu};

/// The text with `GPU 2 (0000:29:00.0)` in the place of each address of a GPU, if its number is known. What is quoted stays.
pub(super) fn numbered(facts: &Facts, id: Id, mut text: String) -> String {
    let Some(node) = facts.ancestor(id, Subject::Node) else {
        return text;
    };
    for id in facts.below(node, Subject::Gpu) {
        let name = facts.name(id);
        let Some(number) = facts.known(id, gpu::INDEX).filter(|_| text.contains(name)) else {
            continue;
        };
        let mut out = String::with_capacity(text.len() + 16);
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once(name) {
            out.push_str(before);
            rest = after;
            let is_quoted = out.matches('`').count() % 2 == 1;
            let is_part = |c: char| c.is_alphanumeric() || matches!(c, '/' | '=' | ':' | '_');
            if is_quoted || out.ends_with(is_part) || after.starts_with(is_name_part) {
                out.push_str(name);
                continue;
            }
            out.truncate(out.strip_suffix("GPU ").unwrap_or(&out).len());
            out.push_str(&format!("GPU {number} ({name})"));
        }
        out.push_str(rest);
        text = out;
    }
    text
}

fn is_name_part(c: char) -> bool {
    c.is_alphanumeric() || c == '/'
}
