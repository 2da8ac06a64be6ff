//! The XML of NCCL's topology file, in the small form that NCCL's own parser takes (src/graph/xml.cc).

use std::collections::BTreeSet;

/// The parts of a topology file that can be wrong.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Topology {
    /// PCI addresses in lower letters, and names of network devices.
    pub(super) names: BTreeSet<String>,
    /// PCI addresses of GPUs, in lower letters.
    pub(super) gpus: BTreeSet<String>,
    /// Links between a GPU and an adapter that have no speed, or that of PCIe's first generation: `0000:65:00.0 "2.5 GT/s" x1`.
    pub(super) slow_links: Vec<String>,
}

/// An element: its name, its attributes, and the element that it is in.
struct Element<'t> {
    name: &'t str,
    attributes: Vec<(&'t str, &'t str)>,
    parent: Option<usize>,
}

impl<'t> Element<'t> {
    fn get(&self, key: &str) -> Option<&'t str> {
        let found = self.attributes.iter().find(|(name, _)| *name == key);
        found.map(|(_, value)| *value)
    }
}

/// Reads a topology file. An error is one at which every version of NCCL ends its initialisation.
pub(super) fn read(text: &str) -> Result<Topology, String> {
    let elements = elements(text)?;
    let system = elements
        .iter()
        .find(|e| e.name == "system")
        .ok_or("it has no element <system>")?;
    match system.get("version") {
        Some(version) if version.trim() == "1" => {}
        Some(version) => {
            return Err(format!(
                "<system> has version {:?}, NCCL reads 1",
                short(version)
            ));
        }
        None => return Err("<system> has no version".to_owned()),
    }
    let mut topology = Topology::default();
    for element in &elements {
        let name = match element.name {
            "pci" => element.get("busid"),
            "net" => element.get("name"),
            _ => None,
        };
        let name = name.map(str::to_ascii_lowercase);
        let is_gpu = element
            .get("class")
            .is_some_and(|class| class.starts_with("0x03"));
        topology.gpus.extend(name.clone().filter(|_| is_gpu));
        topology.names.extend(name);
    }
    let holds = subtree_devices(&elements);
    for (element, holds) in elements.iter().zip(holds) {
        // Where both are below a bridge, what is above it is not between them.
        if element.name == "pci"
            && holds.gpu != holds.nic
            && let Some(link) = slow_link(element)
        {
            topology.slow_links.push(link);
        }
    }
    Ok(topology)
}

/// Whether a GPU and an adapter are in a part of the tree.
#[derive(Clone, Copy, Default)]
struct SubtreeDevices {
    gpu: bool,
    nic: bool,
}

fn subtree_devices(elements: &[Element<'_>]) -> Vec<SubtreeDevices> {
    let mut all = vec![SubtreeDevices::default(); elements.len()];
    for (at, element) in elements.iter().enumerate().rev() {
        let class = element.get("class").unwrap_or("");
        let own = SubtreeDevices {
            gpu: element.name == "gpu" || (element.name == "pci" && class.starts_with("0x03")),
            nic: matches!(element.name, "nic" | "net")
                || (element.name == "pci" && class.starts_with("0x02")),
        };
        all[at].gpu |= own.gpu;
        all[at].nic |= own.nic;
        // Children are behind their parents, so that each is complete before it is added to its own.
        if let Some(parent) = element.parent {
            let child = all[at];
            all[parent].gpu |= child.gpu;
            all[parent].nic |= child.nic;
        }
    }
    all
}

/// What NCCL makes of a link, in units of 0.1 Gb/s for each lane (src/graph/topo.cc, kvDictPciGen); `None` if it guesses.
fn speed_of(text: &str) -> Option<u64> {
    let (rate, _) = text.split_once(" GT/s")?;
    match rate.strip_suffix(".0").unwrap_or(rate) {
        "2.5" => Some(15),
        "5" => Some(30),
        "8" => Some(60),
        "16" => Some(120),
        "32" => Some(240),
        "64" => Some(480),
        _ => None,
    }
}

/// NCCL's units at and below which a link is taken for one of PCIe's first generation: 16 lanes of 2.5 GT/s, 3 GB/s.
const FIRST_GENERATION: u64 = 15 * 16;

/// A link that is stated, and stated as slow as no GPU's and no adapter's is, or as nothing. What is not stated NCCL asks the kernel.
fn slow_link(element: &Element<'_>) -> Option<String> {
    let speed = element.get("link_speed")?;
    let width = element.get("link_width").unwrap_or("");
    // NCCL reads a width of 0, and an empty one, as 16 lanes.
    let lanes = match width.trim().parse::<u64>() {
        Ok(0) | Err(_) => 16,
        Ok(lanes) => lanes.min(64),
    };
    let slow = speed_of(speed).is_none_or(|speed| speed * lanes <= FIRST_GENERATION);
    let busid = element.get("busid").unwrap_or("?");
    slow.then(|| {
        format!(
            "{} {:?} x{}",
            short(busid),
            short(speed),
            match width {
                "" => "?".to_owned(),
                width => short(width),
            }
        )
    })
}

/// The elements in the order in which they begin; comments, declarations and text between them are passed over.
fn elements(text: &str) -> Result<Vec<Element<'_>>, String> {
    let mut elements: Vec<Element<'_>> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = rest.get(at + 1..).unwrap_or("");
        if let Some(comment) = rest.strip_prefix("!--") {
            let end = comment.find("-->").ok_or("a comment has no end")?;
            rest = comment.get(end + 3..).unwrap_or("");
            continue;
        }
        let end = end_of_tag(rest).ok_or("an element has no end")?;
        let tag = rest.get(..end).unwrap_or("");
        rest = rest.get(end + 1..).unwrap_or("");
        if tag.starts_with(['?', '!']) {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            let last = open.pop().and_then(|at| elements.get(at));
            match last {
                Some(element) if element.name == name.trim() => continue,
                Some(element) => {
                    return Err(format!(
                        "<{}> is closed as </{}>",
                        short(element.name),
                        short(name.trim())
                    ));
                }
                None => return Err(format!("</{}> closes nothing", short(name.trim()))),
            }
        }
        let (inside, single) = match tag.strip_suffix('/') {
            Some(inside) => (inside, true),
            None => (tag, false),
        };
        let name = inside.split_whitespace().next().unwrap_or("");
        if name.is_empty() {
            return Err("an element has no name".to_owned());
        }
        let attributes = attributes(inside.get(name.len()..).unwrap_or(""))?;
        elements.push(Element {
            name,
            attributes,
            parent: open.last().copied(),
        });
        if !single {
            open.push(elements.len() - 1);
        }
    }
    match open.last().and_then(|at| elements.get(*at)) {
        Some(element) => Err(format!("<{}> is never closed", short(element.name))),
        None if elements.is_empty() => Err("it has no element".to_owned()),
        None => Ok(elements),
    }
}

/// The place of the `>` that ends a tag: not one inside quotes.
fn end_of_tag(text: &str) -> Option<usize> {
    let mut quoted = false;
    text.bytes().position(|byte| {
        quoted ^= byte == b'"';
        byte == b'>' && !quoted
    })
}

fn attributes(text: &str) -> Result<Vec<(&str, &str)>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let bad = || format!("{:?} is not an attribute", short(rest));
        let (name, value) = rest.split_once('=').ok_or_else(bad)?;
        let value = value.trim_start().strip_prefix('"').ok_or_else(bad)?;
        let (value, behind) = value.split_once('"').ok_or_else(bad)?;
        found.push((name.trim(), value));
        rest = behind.trim_start();
    }
    Ok(found)
}

/// A word of the file for a sentence.
fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The form of a cloud's file: bridges that the machine does not have, one for each GPU and its adapter.
    const CLOUD: &str = r#"<!-- for an 8-GPU machine -->
<system version="1">
  <cpu numaid="0" affinity="0000ffff,ffffffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="ffff:ff:01.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16" vendor="0x0000" device="0xabcd" subsystem_vendor="0x0000" subsystem_device="0x0000">
      <pci busid="0001:00:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"/>
      <pci busid="0101:00:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16"/>
    </pci>
    <pci busid="FFFF:FF:02.0" class="0x060400" link_speed="2.5 GT/s" link_width="1">
      <pci busid="0002:00:00.0" class="0x030200" link_speed="" link_width=""/>
      <pci busid="0102:00:00.0" class="0x020700">
        <nic><net name="mlx5_ib1" port="1"/></nic>
      </pci>
    </pci>
  </cpu>
</system>
"#;

    #[test]
    fn a_clouds_file() {
        let topology = read(CLOUD).unwrap();
        for name in ["0001:00:00.0", "0102:00:00.0", "ffff:ff:02.0", "mlx5_ib1"] {
            assert!(topology.names.contains(name), "{name}");
        }
        // The bridge at 2.5 GT/s has GPU and adapter below it, so what is above is not between them; the GPU's own link says nothing.
        assert_eq!(topology.slow_links, [r#"0002:00:00.0 "" x?"#]);
    }

    #[test]
    fn a_dump_of_a_healthy_machine_has_no_slow_link() {
        // Broadcom's switches state 5 GT/s for their inner uplink.
        let text = r#"<system version="1"><cpu numaid="0">
            <pci busid="0000:08:00.0" class="0x060400" link_speed="5.0 GT/s PCIe" link_width="16">
              <pci busid="0000:0d:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
                <pci busid="0000:0f:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="0" sm="90" rank="0" gdr="1"/></pci>
              </pci>
              <pci busid="0000:0a:00.0" class="0x060400" link_speed="5.0 GT/s PCIe" link_width="16">
                <pci busid="0000:0c:00.0" class="0x020000" link_speed="8.0 GT/s PCIe" link_width="8"><nic><net name="mlx5_0"/></nic></pci>
              </pci>
            </pci></cpu></system>"#;
        assert_eq!(read(text).unwrap().slow_links, Vec::<String>::new());
        // Emulated switches of a virtual machine: one lane of the first generation between a GPU and its adapter.
        let slow = text.replace(
            r#"class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16""#,
            r#"class="0x060400" link_speed="2.5 GT/s" link_width="1""#,
        );
        assert_eq!(
            read(&slow).unwrap().slow_links,
            [r#"0000:0d:00.0 "2.5 GT/s" x1"#]
        );
    }

    #[test]
    fn what_no_version_of_nccl_reads() {
        for (text, why) in [
            ("", "no element"),
            ("not XML at all", "no element"),
            ("<system version=\"1\"><cpu></system>", "closed as"),
            ("<system version=\"1\"><cpu numaid=\"0\">", "never closed"),
            ("<system><cpu/></system>", "no version"),
            ("<system version=\"2\"/>", "NCCL reads 1"),
            ("<graphs version=\"1\"/>", "<system>"),
            ("<system version=1/>", "not an attribute"),
            ("<!-- <system version=\"1\"/>", "comment"),
            ("<system version=\"1\"", "no end"),
            ("</system>", "closes nothing"),
            ("< >", "no name"),
            ("<system version=\"1\" \u{1f600}/>", "not an attribute"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(read("<?xml version=\"1.0\"?>\n<system version=\"1\"/>").is_ok());
    }
}
