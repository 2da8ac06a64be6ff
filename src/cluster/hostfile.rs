//! Files that list hosts, one a line, as MPI's launchers, DeepSpeed and pdsh read them.

use crate::nodeset::{self, NodesetError};

/// The hosts of a file in its order, without duplicates. Anything after a host's name (`slots=8`,
/// `:8`, a comment) is ignored; a line may hold a list such as `n[01-16]`.
///
/// Source: Open MPI's `mpirun(1)`, "HOSTFILES"; MPICH's `hydra`, `host:slots`; DeepSpeed's resource
/// configuration.
///
/// # Errors
///
/// A line does not start with a host's name.
pub fn read(text: &str) -> Result<Vec<String>, NodesetError> {
    let mut all = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or("");
        let Some(word) = line.split_whitespace().next() else {
            continue;
        };
        let word = match word.split_once(':') {
            Some((host, slots)) if slots.bytes().all(|b| b.is_ascii_digit()) => host,
            _ => word,
        };
        all.extend(nodeset::expand(word)?);
    }
    let mut seen = std::collections::HashSet::new();
    all.retain(|name| seen.insert(name.clone()));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_files_from_the_wild() {
        let text = "# the cluster\nn1 slots=8\nn2:8\n\n  n[3-4]   # two\nfe80::1\nn1 slots=8 max_slots=16\nuser.example.org\n";
        let hosts = read(text).unwrap();
        assert_eq!(
            hosts,
            ["n1", "n2", "n3", "n4", "fe80::1", "user.example.org"]
        );
        assert_eq!(read("# nothing\n").unwrap(), Vec::<String>::new());
        assert!(read("n1\n$(reboot)\n").is_err());
    }
}
