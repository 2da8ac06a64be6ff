//! Devices in sentences: a GPU by its number for NVML and nvidia-smi, an adapter by its RDMA device, both with their address.

use crate::fact::{Facts, Id, Subject, device, gpu};

/// The text with `GPU 2 (0000:29:00.0)` in the place of each address of a GPU, or `GPU 0000:29:00.0` if its number is unknown, and with
/// `mlx5_0 (0000:18:00.0)` in the place of the first address of an adapter, unless the text names it. What is quoted stays.
pub(super) fn named(facts: &Facts, id: Id, mut text: String) -> String {
    let Some(node) = facts.ancestor(id, Subject::Node) else {
        return text;
    };
    for id in facts.below(node, Subject::Gpu) {
        let name = facts.name(id);
        // A name of signs alone is no word of a sentence.
        let is_word = name.contains(char::is_alphanumeric);
        if is_word && text.contains(name) {
            let called = match facts.known(id, gpu::INDEX) {
                Some(number) => format!("GPU {number} ({name})"),
                None => format!("GPU {name}"),
            };
            text = replaced(&text, name, &called, usize::MAX);
        }
    }
    for id in facts.below(node, Subject::Device) {
        let name = facts.name(id);
        // A device in software has none, and the word for that is in other sentences too.
        let address = facts.known(id, device::PCI);
        let Some(address) = address.filter(|address| address.contains(':')) else {
            continue;
        };
        if text.contains(&*address) && !text.contains(name) {
            text = replaced(&text, &address, &format!("{name} ({address})"), 1);
        }
    }
    text
}

/// The text with other words in the place of an address, so many times at most. An empty address is
/// in no text.
fn replaced(text: &str, address: &str, called: &str, most: usize) -> String {
    if address.is_empty() {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 32);
    let mut rest = text;
    let mut count = 0;
    while let Some((before, after)) = rest.split_once(address).filter(|_| count < most) {
        out.push_str(before);
        rest = after;
        let is_quoted = out.matches('`').count() % 2 == 1;
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '/' | '=' | ':' | '_');
        // Behind its driver's name it is part of a line of the kernel.
        let is_logged = after.starts_with(": ") && out.contains(": ");
        if is_quoted || is_logged || out.ends_with(is_part) || after.starts_with(is_name_part) {
            out.push_str(address);
            continue;
        }
        if called.starts_with("GPU ") {
            out.truncate(out.strip_suffix("GPU ").unwrap_or(&out).len());
        }
        // Its ids stand in the same parenthesis.
        match (called.strip_suffix(')'), rest.strip_prefix(" (")) {
            (Some(called), Some(ids)) => {
                out.extend([called, ", "]);
                rest = ids;
            }
            _ => out.push_str(called),
        }
        count += 1;
    }
    out.push_str(rest);
    out
}

fn is_name_part(c: char) -> bool {
    c.is_alphanumeric() || c == '/'
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
        for (text, expected) in [
            ("it is none of them", "it is none of them"),
            ("0000:19:00.0 is hot", "GPU 2 (0000:19:00.0) is hot"),
            ("GPU 0000:19:00.0 is hot", "GPU 2 (0000:19:00.0) is hot"),
            (
                "0000:4a:00.0 (10de:2330) is gone",
                "GPU 0000:4a:00.0 (10de:2330) is gone",
            ),
            (
                "0000:18:00.0 to 0000:17:00.0",
                "mlx5_0 (0000:18:00.0) to 0000:17:00.0",
            ),
            (
                "0000:19:00.0 (10de:2330) is gone",
                "GPU 2 (0000:19:00.0, 10de:2330) is gone",
            ),
            ("mlx5_0 at 0000:18:00.0", "mlx5_0 at 0000:18:00.0"),
            ("see `lspci -s 0000:18:00.0`", "see `lspci -s 0000:18:00.0`"),
            (
                "0000:18:00.0 failed: mlx5_core 0000:18:00.0: fatal",
                "mlx5_0 (0000:18:00.0) failed: mlx5_core 0000:18:00.0: fatal",
            ),
        ] {
            assert_eq!(named(&facts, node, text.into()), expected);
        }
    }
}
