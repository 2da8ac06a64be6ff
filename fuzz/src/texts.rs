//! Texts of any outputs of tools, to the report on all hosts that they are of.

use rdma_doctor::probe::outputs::recorded::Evidence;

/// Tries one input: a post, or where it begins with a byte below a space, a member of a bundle
/// whose path is the first line.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut evidence = Evidence::of("fuzzed");
    match text.split_once('\n') {
        Some((path, rest)) if path.starts_with(|first: char| first < ' ') => {
            evidence.add_member(path.trim_start_matches(|c: char| c < ' '), rest);
        }
        _ => evidence.add_text("post.txt", &text),
    }
    super::judged::to_the_end(&evidence.finish());
}
