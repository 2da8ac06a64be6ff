//! One remedy for several subjects.

/// The commands of a remedy that are written out; a reader sees from these how the others read.
const COMMANDS: usize = 8;

/// The same where each command has a line.
const LINES: usize = 64;

/// The subjects whose commands are looked at: a node has fewer, a cluster's findings name nodes.
pub(super) const SUBJECTS: usize = 256;

/// One remedy for several subjects, and items of lists: a command (between backquotes) that names one stands once for each of them. The words around are
/// the first subject's.
pub(super) fn for_each_subject(mut rendered: impl Iterator<Item = String>) -> String {
    let first = rendered.next().unwrap_or_default();
    let mut parts: Vec<Vec<String>> = first.split('`').map(|part| vec![part.to_owned()]).collect();
    for other in rendered {
        let own: Vec<&str> = other.split('`').collect();
        // A backquote in a fact: the parts are not those of the first.
        if own.len() != parts.len() {
            continue;
        }
        for (all, part) in parts.iter_mut().zip(own).skip(1).step_by(2) {
            if !all.iter().any(|known| known == part) {
                all.push(part.to_owned());
            }
        }
    }
    let joined = parts.iter().enumerate().map(|(at, all)| {
        let is_line = at > 0 && parts[at - 1].concat().ends_with("\n   ");
        match all.as_slice() {
            [one] => one.clone(),
            // A command on a line of its own has the others below it.
            all if is_line => all
                .iter()
                .take(LINES)
                .cloned()
                .collect::<Vec<_>>()
                .join("`\n   `"),
            all => commands(all),
        }
    });
    joined.collect::<Vec<String>>().join("`")
}

/// Several commands as one text, without the outer backquotes. A variable that leaves devices out takes a list.
fn commands(all: &[String]) -> String {
    let names = |command: &String| Some(command.split_once("=^")?.1.to_owned());
    if let (Some((variable, _)), Some(names)) = (
        all.first().and_then(|command| command.split_once("=^")),
        all.iter().map(names).collect::<Option<Vec<String>>>(),
    ) {
        return format!("{variable}=^{}", names.join(","));
    }
    match all {
        [shown @ .., last] if shown.len() >= COMMANDS => {
            format!("{}`, … `{last}", shown[..COMMANDS - 1].join("`, `"))
        }
        all => all.join("`, `"),
    }
}

#[cfg(test)]
mod tests {
    use super::for_each_subject;

    #[test]
    fn a_command_stands_for_each_subject() {
        let fix = |device: &str| {
            format!(
                "1. See it: `lspci`.\n2. Reset it: `mlxfwreset -d {device} reset`, or `NCCL_IB_HCA=^{device}`."
            )
        };
        let both = for_each_subject(["17:00.0", "18:00.0", "17:00.0"].map(fix).into_iter());
        assert_eq!(
            both,
            "1. See it: `lspci`.\n2. Reset it: `mlxfwreset -d 17:00.0 reset`, `mlxfwreset -d 18:00.0 reset`, or `NCCL_IB_HCA=^17:00.0,18:00.0`."
        );
        let many = for_each_subject((0..20).map(|n| format!("`x {n}`")));
        assert_eq!(
            many,
            "`x 0`, `x 1`, `x 2`, `x 3`, `x 4`, `x 5`, `x 6`, … `x 19`"
        );
    }
}
