//! Names of GPUs and adapters by their PCI ids.

/// What is known without the machine's pci.ids.
const BUILT_IN: &str = include_str!("models.ids");

/// The built-in name of a device, by `vendor:device`.
pub(super) fn built_in(id: &str) -> Option<&'static str> {
    in_pci_ids(BUILT_IN, id)
}

/// The name of a device in a text of the form of pci.ids: the one in brackets, by which its vendor sells it, if there is one.
pub(super) fn in_pci_ids<'t>(text: &'t str, id: &str) -> Option<&'t str> {
    let (vendor, device) = id.split_once(':')?;
    let mut lines = text.lines();
    lines.find(|line| named(line, vendor).is_some())?;
    let devices = lines.take_while(|line| line.starts_with(['\t', '#']));
    let mut names = devices.filter_map(|line| named(line.strip_prefix('\t')?, device));
    let name = names.next()?;
    let in_brackets = name
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    Some(in_brackets.map_or(name, |(sold_as, _)| sold_as))
}

/// The name behind an id.
fn named<'t>(line: &'t str, id: &str) -> Option<&'t str> {
    line.strip_prefix(id)?.strip_prefix("  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_lines_of_their_vendor() {
        let text = "# comment\n10d0  Another\n\t2330  Wrong\n10de  NVIDIA Corporation\n\t2329  GH100\n\t\t10de 2330  Subsystem\n\
                    \t2330  GH100 [H100 SXM5 80GB]\n10df  Next\n\t2331  Of the next\n";
        assert_eq!(in_pci_ids(text, "10de:2330"), Some("H100 SXM5 80GB"));
        assert_eq!(in_pci_ids(text, "10de:2329"), Some("GH100"));
        assert_eq!(in_pci_ids(text, "10de:2331"), None);
        assert_eq!(in_pci_ids(text, "ffff:2331"), None);
        assert_eq!(built_in("15b3:1021"), Some("ConnectX-7"));
    }
}
