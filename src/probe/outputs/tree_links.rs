//! The symbolic links of a copied tree: what is asked through a link is what its target holds.

use std::collections::BTreeMap;

/// Paths that links add, at most.
const ALIASES: usize = 50_000;
/// Links that lead to links, one behind the other.
const ROUNDS: usize = 3;

/// The target of a link, if a file holds nothing else: copies and archives often make a file of a link.
pub(super) fn target(text: &str) -> Option<&str> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let is_one_path = text.len() < 512 && !text.contains(['\n', ' ', '\0']);
    (is_one_path && text.starts_with("../")).then_some(text)
}

/// Where a link leads that stands at this path.
fn resolved(link: &str, target: &str) -> String {
    let mut parts: Vec<&str> = link.split('/').filter(|part| !part.is_empty()).collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    format!("/{}", parts.join("/"))
}

/// The entries below a directory, each with what follows its name.
fn below<'m, T>(map: &'m BTreeMap<String, T>, directory: &str) -> Vec<(&'m str, &'m T)> {
    let prefix = format!("{directory}/");
    let all = map
        .range(prefix.clone()..)
        .take_while(|entry| entry.0.starts_with(&prefix));
    all.map(|(path, value)| (path.get(directory.len()..).unwrap_or(""), value))
        .collect()
}

/// The further paths by which links reach files, each with the path of the file itself.
pub(super) fn aliases(
    files: &[String],
    links: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let own = |path: &String| (path.clone(), path.clone());
    let mut reached: BTreeMap<String, String> = files.iter().map(own).collect();
    let mut leads: BTreeMap<String, String> = links
        .iter()
        .map(|(link, target)| (link.clone(), resolved(link, target)))
        .collect();
    for _ in 0..ROUNDS {
        let mut more_files = Vec::new();
        let mut more_links = Vec::new();
        for (link, target) in &leads {
            // A link to a directory above itself is followed once.
            let name = link.rsplit('/').next().unwrap_or("");
            let is_again = |rest: &str| rest.split('/').any(|part| part == name);
            for (rest, file) in below(&reached, target) {
                if !is_again(rest) {
                    more_files.push((format!("{link}{rest}"), file.clone()));
                }
            }
            for (rest, further) in below(&leads, target) {
                if !is_again(rest) {
                    more_links.push((format!("{link}{rest}"), further.clone()));
                }
            }
        }
        let before = reached.len() + leads.len();
        for (path, file) in more_files.into_iter().take(ALIASES.saturating_sub(before)) {
            reached.entry(path).or_insert(file);
        }
        let room = ALIASES.saturating_sub(reached.len() + leads.len());
        for (path, target) in more_links.into_iter().take(room) {
            leads.entry(path).or_insert(target);
        }
        if reached.len() + leads.len() == before {
            break;
        }
    }
    for file in files {
        reached.remove(file);
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_reached_by_its_class_and_leads_back_to_its_function() {
        let function = "/sys/devices/pci0000:0f/0000:10:00.0";
        let files = [
            format!("{function}/vendor"),
            format!("{function}/infiniband/mlx5_0/ports/1/state"),
        ];
        let links = [
            (
                "/sys/class/infiniband/mlx5_0".to_owned(),
                "../../devices/pci0000:0f/0000:10:00.0/infiniband/mlx5_0".to_owned(),
            ),
            (
                format!("{function}/infiniband/mlx5_0/device"),
                "../..".to_owned(),
            ),
        ];
        let found = aliases(&files, &links.into_iter().collect());
        let reaches = |path: &str| found.get(path).map(String::as_str);
        let by_class = "/sys/class/infiniband/mlx5_0";
        assert_eq!(
            reaches(&format!("{by_class}/ports/1/state")),
            Some(&*files[1])
        );
        assert_eq!(
            reaches(&format!("{by_class}/device/vendor")),
            Some(&*files[0])
        );
        assert!(found.len() < 20, "{found:?}");
    }

    #[test]
    fn only_a_path_is_a_link() {
        assert_eq!(target("../../devices/x\n"), Some("../../devices/x"));
        assert_eq!(target("../a\n../b\n"), None);
        assert_eq!(target("4: ACTIVE"), None);
    }
}
