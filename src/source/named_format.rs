//! Files whose path the environment, a home directory or another file names. Anybody may have named any file, so a recording holds of them what their
//! readers take, and the numbers of the lines.

use super::redact;

/// Parameters of Open MPI that are read, by their beginnings.
const MCA_PREFIXES: &[&str] = &["btl", "coll", "mtl", "oob", "osc", "pml", "prte_if_"];
/// Keys of Accelerate's that are read.
const ACCELERATE_KEYS: &[&str] = &[
    "deepspeed_hostfile",
    "main_process_ip",
    "main_process_port",
    "num_machines",
    "num_processes",
];
/// Elements of NCCL's topology (src/graph/topo.cc); "?xml" and comments say nothing.
const ELEMENTS: &[&str] = &[
    "c2c", "cpu", "gin", "gpu", "net", "nic", "nvlink", "pci", "pcilink", "system",
];
/// What stands for a line or an element that is not read.
const NOT_READ: &str = "not-recorded";

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedFormat {
    /// NCCL's variables, one a line.
    Nccl,
    /// NCCL's topology.
    Topology,
    /// Hosts and their slots, one a line.
    Hosts,
    /// Parameters of Open MPI.
    Mca,
    /// Variables that DeepSpeed gives to every rank.
    DeepSpeed,
    /// Accelerate's keys.
    Accelerate,
}

impl NamedFormat {
    /// The format of this name in a question.
    pub fn from_name(name: &str) -> Option<Self> {
        [NamedFormat::Nccl, NamedFormat::Topology, NamedFormat::Hosts]
            .into_iter()
            .find(|format| format.name() == name)
    }

    /// Its name in a question.
    pub fn name(self) -> &'static str {
        match self {
            NamedFormat::Nccl => "nccl",
            NamedFormat::Topology => "topology",
            NamedFormat::Hosts => "hosts",
            NamedFormat::Mca => "mca",
            NamedFormat::DeepSpeed => "deepspeed",
            NamedFormat::Accelerate => "accelerate",
        }
    }

    /// The format of a file that is found by its place in a home directory.
    pub fn of_home(name: &str) -> Option<Self> {
        match name {
            ".deepspeed_env" => Some(NamedFormat::DeepSpeed),
            ".openmpi/mca-params.conf" => Some(NamedFormat::Mca),
            "accelerate/default_config.yaml" => Some(NamedFormat::Accelerate),
            _ => None,
        }
    }

    /// What is recorded of a file with this text.
    pub fn kept(self, text: &str) -> String {
        if self == NamedFormat::Topology {
            return topology(text);
        }
        let lines = text.split('\n').map(|line| self.kept_line(line));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn kept_line(self, line: &str) -> &str {
        let is_kept = match self {
            NamedFormat::Nccl if line.starts_with('#') || line.trim().is_empty() => return "",
            // A name with blanks and all is a finding.
            NamedFormat::Nccl => match line.split_once('=') {
                Some((name, _)) => name.contains("NCCL_"),
                None => line.starts_with("NCCL_") && line.split_whitespace().count() == 1,
            },
            NamedFormat::Hosts => {
                let words: Vec<&str> = line.split_whitespace().collect();
                match words.as_slice() {
                    [] => return "",
                    [first, ..] if first.starts_with('#') => return "",
                    [_, slots, rest @ ..] => {
                        let ends = rest.first().is_none_or(|word| word.starts_with('#'));
                        ends && slots.starts_with("slots=")
                    }
                    _ => false,
                }
            }
            NamedFormat::Mca => begins(assigned(line, '='), MCA_PREFIXES),
            NamedFormat::DeepSpeed => redact::is_recorded_variable(assigned(line, '=')),
            NamedFormat::Accelerate => ACCELERATE_KEYS.contains(&assigned(line, ':')),
            NamedFormat::Topology => false,
        };
        match (is_kept, self) {
            (true, _) => line,
            // That there is a line which is understood as none is a finding of theirs.
            (false, NamedFormat::Nccl) if !line.contains('=') => NOT_READ,
            (false, NamedFormat::Hosts) => NOT_READ,
            (false, _) => "",
        }
    }
}

/// The name that a line gives a value; empty where it gives none.
fn assigned(line: &str, sign: char) -> &str {
    let name = line.split_once(sign).map_or("", |(name, _)| name.trim());
    name.trim_start_matches("export ").trim()
}

fn begins(name: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// The tags of a text. Those that no topology has keep their place.
fn topology(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = rest.get(at + 1..).unwrap_or("");
        if let Some(comment) = rest.strip_prefix("!--") {
            match comment.split_once("-->") {
                Some((_, behind)) => rest = behind,
                None => return kept + "<!--",
            }
            continue;
        }
        let mut is_quoted = false;
        let end = rest.bytes().position(|byte| {
            is_quoted ^= byte == b'"';
            byte == b'>' && !is_quoted
        });
        let Some(end) = end else {
            return kept + "<";
        };
        let (tag, behind) = (
            rest.get(..end).unwrap_or(""),
            rest.get(end + 1..).unwrap_or(""),
        );
        rest = behind;
        let bare = tag.trim_start_matches('/').trim_end_matches('/');
        let name = bare.split_whitespace().next().unwrap_or("");
        let (opens, closes) = (tag.starts_with('/'), tag.ends_with('/'));
        match (name, tag.starts_with(['?', '!'])) {
            (_, true) => {}
            (name, _) if name.is_empty() || ELEMENTS.contains(&name) => {
                kept += &format!("<{tag}>\n");
            }
            _ => {
                let (before, after) = (if opens { "/" } else { "" }, if closes { "/" } else { "" });
                kept += &format!("<{before}{NOT_READ}{after}>\n");
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_readers_take_is_kept_with_the_numbers_of_lines() {
        let text = "# hunter2\nNCCL_ALGO=Ring\npassword=hunter2\nhunter2 x\nNCCL_DEBUG\nexport NCCL_X=1\r\n";
        let kept = "\nNCCL_ALGO=Ring\n\nnot-recorded\nNCCL_DEBUG\nexport NCCL_X=1\r\n";
        assert_eq!(NamedFormat::Nccl.kept(text), kept);
        let text = "n1 slots=8 # x\nhunter2\n# x\nn2 slots=8 hunter2\nn3\tslots=4";
        let kept = "n1 slots=8 # x\nnot-recorded\n\nnot-recorded\nn3\tslots=4";
        assert_eq!(NamedFormat::Hosts.kept(text), kept);
        let text = "pml = ucx\npassword = hunter2\n btl_tcp_if_include=eth0\n";
        let kept = "pml = ucx\n\n btl_tcp_if_include=eth0\n";
        assert_eq!(NamedFormat::Mca.kept(text), kept);
        let text = "export NCCL_IB_HCA=mlx5_0\nTOKEN=hunter2\nUCX_TLS = rc";
        let kept = "export NCCL_IB_HCA=mlx5_0\n\nUCX_TLS = rc";
        assert_eq!(NamedFormat::DeepSpeed.kept(text), kept);
        let text = "a:\n  num_machines: 3\n  hub_token: hunter2";
        assert_eq!(NamedFormat::Accelerate.kept(text), "\n  num_machines: 3\n");
    }

    #[test]
    fn a_topology_keeps_its_tags() {
        let text = "<?xml version=\"1.0\"?><!-- x --><system version=\"1\">hunter2<cpu numaid=\"0\"><secret word=\"hunter2>\"/></cpu>";
        let kept = "<system version=\"1\">\n<cpu numaid=\"0\">\n<not-recorded/>\n</cpu>\n";
        assert_eq!(NamedFormat::Topology.kept(text), kept);
        assert_eq!(NamedFormat::Topology.kept("hunter2"), "");
        assert_eq!(NamedFormat::Topology.kept("<!-- hunter2"), "<!--");
        assert_eq!(NamedFormat::Topology.kept("<system hunter2"), "<");
    }
}
