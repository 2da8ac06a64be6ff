//! NVLinks, as `nvidia-smi nvlink -s` and `-e` print them.

use crate::fact::{Facts, Id, Membership, Subject, Type, nvlink};
use crate::probe::outputs::{Output, matrix, named};

/// `GPU 0: …`, and below it `Link 0: 26.562 GB/s`, `Link 2: <inactive>`, `Link 0: Replay Errors: 0`.
pub(in crate::probe::outputs) fn state(output: &Output, facts: &mut Facts, node: Id) {
    let mut at: Option<Id> = None;
    for line in output.lines() {
        let text = line.text.trim();
        let Some((subject, says)) = text.split_once(": ") else {
            continue;
        };
        if let Some(number) = subject.strip_prefix("GPU ") {
            let name = matrix::name_of(facts, node, &format!("GPU{number}"));
            let gpu = facts.instance(Subject::Gpu, node, &name);
            if !output.is_cut && (output.has("-s") || output.has("--status")) {
                facts.set_members(Subject::Nvlink, gpu, Membership::Known(line.origin()));
            }
            at = Some(gpu);
            continue;
        }
        let number = subject
            .strip_prefix("Link ")
            .and_then(|n| n.parse::<u64>().ok());
        let (Some(gpu), Some(number)) = (at, number) else {
            continue;
        };
        let name = format!("{} link {number}", facts.name(gpu));
        let id = facts.instance(Subject::Nvlink, gpu, &name);
        facts.set(id, nvlink::LINK, line.known(number));
        if let Some((what, count)) = says.split_once(": ") {
            named::state(facts, id, named::NVLINK, (what, count), &line);
        } else if says == "<inactive>" {
            facts.set(id, nvlink::ACTIVE, line.known(false));
        } else if let Some(rate) = named::read(Type::BitRate, says) {
            named::fact(facts, id, "speed", Some((rate, line)));
            facts.set(id, nvlink::ACTIVE, line.known(true));
        }
    }
}
