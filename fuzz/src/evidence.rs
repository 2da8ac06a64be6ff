//! A text of outputs of tools: any bytes become recordings and facts, without a panic.

use rdma_doctor::fact::Facts;
use rdma_doctor::probe;
use rdma_doctor::probe::outputs::recorded::Evidence;

/// Tries one input: as a post, and as a member of a bundle of which the first line is the path.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (path, rest) = text
        .split_once('\n')
        .unwrap_or(("sos_commands/a/ip_addr", &text));
    let mut post = Evidence::of("fuzzed");
    post.add_text("post.txt", &text);
    let mut bundle = Evidence::of("fuzzed");
    bundle.add_member(path, rest);
    for recording in [post, bundle].into_iter().flat_map(Evidence::finish) {
        if recording.header.log {
            continue;
        }
        let mut facts = Facts::new();
        probe::establish(&recording, &mut facts);
        super::without_a_bug(&facts);
    }
}
