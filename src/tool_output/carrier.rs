//! Commands that run another one: over ssh, in a container, on many hosts, with a time limit.

use super::command::tool_name;
use super::marks;

/// Where a command ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Place {
    /// Where the prompt stands.
    #[default]
    Here,
    /// On this host, or in this pod.
    On(String),
    /// On a host that is not named.
    Elsewhere,
    /// On several hosts, whose names stand before or above what each printed.
    OnEach,
    /// On the hosts that a loop goes through; with what names each, in which its variable is.
    Looped(String),
}

impl Place {
    /// Whether it is several hosts.
    pub(super) fn is_several(&self) -> bool {
        matches!(self, Place::OnEach | Place::Looped(_))
    }
}

/// What runs a command elsewhere or otherwise: its own options and operands stand before it.
const CARRIERS: [&str; 27] = [
    "ansible",
    "bash",
    "chroot",
    "clush",
    "docker",
    "dsh",
    "ip",
    "kubectl",
    "nerdctl",
    "nice",
    "nsenter",
    "numactl",
    "oc",
    "parallel-ssh",
    "pdsh",
    "podman",
    "psh",
    "pssh",
    "salt",
    "sh",
    "srun",
    "ssh",
    "stdbuf",
    "sudo",
    "timeout",
    "watch",
    "xdsh",
];
/// What runs a command on many hosts and says the host before or above what each printed.
const PARALLEL_SHELLS: [&str; 9] = [
    "ansible",
    "clush",
    "dsh",
    "parallel-ssh",
    "pdsh",
    "psh",
    "pssh",
    "salt",
    "xdsh",
];
/// Of those that do other things too, the word by which they run a command.
const CARRYING: [[&str; 2]; 6] = [
    ["docker", "exec"],
    ["ip", "netns"],
    ["kubectl", "exec"],
    ["nerdctl", "exec"],
    ["oc", "exec"],
    ["podman", "exec"],
];
/// The tool's command that another one runs, and where; `None` where none is run so.
pub(super) fn carried<'w, 't>(words: &'w [&'t str]) -> Option<(&'w [&'t str], Place)> {
    let carrier = tool_name(words.first()?);
    let does = CARRYING.iter().find(|one| one[0] == carrier);
    let carries = CARRIERS.contains(&carrier)
        && does.is_none_or(|one| words.get(1..).unwrap_or_default().contains(&one[1]));
    if !carries {
        return None;
    }
    let from = words.iter().position(|word| *word == "--").unwrap_or(1);
    let mut behind = words.iter().skip(from);
    let tool = behind.position(|word| marks::is_tool(tool_name(word)));
    let Some(at) = tool.map(|at| from + at) else {
        return of_each(words);
    };
    let (own, command) = words.split_at(at);
    Some((command, place(own)))
}

/// A command that nobody knows, where it ran on several hosts.
fn of_each<'w, 't>(words: &'w [&'t str]) -> Option<(&'w [&'t str], Place)> {
    let shell = words.iter().position(|word| runs_on_hosts(word))?;
    let (name, operands) = words.get(shell..)?.split_first()?;
    let begin = begin_of_command(tool_name(name), operands)?;
    let (own, command) = words.split_at(shell + 1 + begin);
    let place = place(own);
    (place.is_several() && !command.is_empty()).then_some((command, place))
}

fn runs_on_hosts(word: &str) -> bool {
    let name = tool_name(word);
    name == "ssh" || PARALLEL_SHELLS.contains(&name)
}

/// Where among the words behind a parallel shell, or ssh(1), the command begins that it runs.
fn begin_of_command(shell: &str, words: &[&str]) -> Option<usize> {
    let sign = match shell {
        "ansible" => "-a",
        "salt" => "cmd.run",
        _ => "--",
    };
    if let Some(at) = words.iter().position(|word| *word == sign) {
        return Some(at + 1);
    }
    let (values, hosts) = match shell {
        "ansible" | "salt" => return None,
        "ssh" => (SSH_VALUES, 1),
        _ => (SHELL_VALUES, 0),
    };
    let mut operands = 0;
    let mut is_value = false;
    words.iter().position(|word| {
        let is_operand = !is_value && !word.starts_with('-');
        is_value = values.contains(word);
        operands += usize::from(is_operand);
        operands > hosts
    })
}

/// Where a command runs that stands behind these words.
fn place(words: &[&str]) -> Place {
    let leads = |word: &&str| {
        PARALLEL_SHELLS.contains(word) || matches!(*word, "ssh" | "kubectl" | "oc" | "srun")
    };
    let Some(at) = words.iter().rposition(leads) else {
        return Place::Here;
    };
    let operands = words.get(at + 1..).unwrap_or_default();
    match words.get(at) {
        Some(&"ssh") => {
            let host = operand(operands, SSH_VALUES).unwrap_or_default();
            // A loop's variable.
            if host.contains('$') {
                return Place::Looped(host.to_owned());
            }
            Place::On(host.rsplit('@').next().unwrap_or(host).to_owned())
        }
        Some(&"srun") => match node_list(operands) {
            Some(host) if !host.contains([',', '[']) => Place::On(host.to_owned()),
            _ => Place::Elsewhere,
        },
        Some(&("kubectl" | "oc")) => {
            let behind = operands.iter().skip_while(|word| **word != "exec");
            let behind: Vec<&str> = behind.skip(1).copied().collect();
            let pod = operand(&behind, KUBECTL_VALUES).unwrap_or_default();
            Place::On(pod.rsplit('/').next().unwrap_or(pod).to_owned())
        }
        _ => Place::OnEach,
    }
}

/// Options of ssh(1) that have a value behind them.
const SSH_VALUES: &[&str] = &[
    "-b", "-B", "-c", "-D", "-E", "-e", "-F", "-I", "-i", "-J", "-L", "-l", "-m", "-O", "-o", "-p",
    "-Q", "-R", "-S", "-W", "-w",
];
/// Those of parallel shells.
const SHELL_VALUES: &[&str] = &[
    "-w", "-x", "-g", "-X", "-f", "-l", "-t", "-u", "-R", "-M", "-m", "-H", "-h", "-p", "-o", "-e",
];
/// Those of `kubectl exec`.
const KUBECTL_VALUES: &[&str] = &["-n", "--namespace", "-c", "--container", "--context", "-f"];

/// The first word that is neither an option nor the value of one.
fn operand<'t>(words: &[&'t str], with_value: &[&str]) -> Option<&'t str> {
    let mut is_value = false;
    words.iter().copied().find(|word| {
        let is_operand = !is_value && !word.starts_with('-');
        is_value = with_value.contains(word);
        is_operand
    })
}

/// The hosts that `-w` of srun(1) names.
fn node_list<'t>(words: &[&'t str]) -> Option<&'t str> {
    let joined = words.iter().find_map(|word| {
        let short = word.strip_prefix("-w").filter(|name| !name.is_empty());
        short.or_else(|| word.strip_prefix("--nodelist="))
    });
    let option = words
        .iter()
        .position(|word| matches!(*word, "-w" | "--nodelist"));
    joined.or_else(|| words.get(option? + 1).copied())
}
