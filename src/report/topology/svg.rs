//! The node as a drawing: NUMA nodes, host bridges, switches, GPUs and adapters with their ports from left to right, NVLink beside them.

use std::io::{self, Write};

use super::text::{gpu_words, link_words, nic_words, port_words};
use super::tree::{self, PlacedLeaf, TreeLeaf, TreePart};
use super::{Link, Topology};
use crate::fact::Subject;
use crate::report::html::marks::Marks;
use crate::report::html::{Markup, document};
use crate::report::shortened::shortened;

/// The left edge of host bridges, and how far each level is from the next.
const FIRST: usize = 28;
const STEP: usize = 182;
/// Widths of bridges and switches, of GPUs and adapters, of ports.
const FORK: usize = 116;
const LEAF: usize = 264;
const PORT: usize = 180;
/// The height of a card, and of its row.
const CARD: usize = 38;
const ROW: usize = 48;

/// A node to be drawn; without marks nothing was judged.
#[derive(Debug)]
pub struct NodeDrawing {
    /// What is drawn.
    pub topology: Topology,
    /// What the verdicts say.
    pub marks: Option<Marks>,
}

impl NodeDrawing {
    /// Writes the drawing as an SVG file.
    ///
    /// # Errors
    ///
    /// The output's.
    pub fn write_svg(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut page = Markup::default();
        self.svg(&mut page, include_str!("node.css"));
        out.write_all(page.as_str().as_bytes())
    }

    /// Writes a page with the drawing, and the topology as text.
    ///
    /// # Errors
    ///
    /// The output's.
    pub fn write_page(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut page = Markup::default();
        self.draw(&mut page);
        page.text(|out| super::text::write(out, &self.topology, 100))?;
        document(out, &self.topology.node, &page)
    }

    /// Draws a section, if there is anything to draw.
    pub fn draw(&self, page: &mut Markup) {
        let topology = &self.topology;
        if topology.gpus.is_empty() && topology.nics.is_empty() {
            return;
        }
        page.put(
            "<section>\n<h2>Node <span>{}</span></h2>\n<div class=\"wide\">\n",
            &[&topology.node],
        );
        self.svg(page, "");
        page.put("</div>\n<p class=\"key node\">", &[]);
        if self.marks.is_some() {
            page.put(
                "<span class=\"error\">error</span><span class=\"warning\">warning</span><span class=\"note\">note</span>\
                 <span class=\"clean\">no finding</span><span class=\"unjudged\">not judged</span>",
                &[],
            );
        }
        page.put(
            "<span class=\"narrow\">PCIe link below what both ends support</span>",
            &[],
        );
        let mut links = topology.gpus.iter().filter_map(|gpu| gpu.link);
        if links.any(Link::is_lowered) {
            page.put(" Idle GPUs lower their PCIe link: this is normal.", &[]);
        }
        page.put("</p>\n</section>\n", &[]);
    }

    fn svg(&self, page: &mut Markup, style: &'static str) {
        let (placed, unplaced) = tree::by_numa_node(&self.topology);
        let mut bands: Vec<(String, Vec<TreePart>)> = Vec::new();
        for (at, here) in &placed {
            let title = match at {
                Some(at) => {
                    let cpus = self.topology.cpus(*at);
                    let cpus = cpus.map_or(String::new(), |cpus| format!(": CPUs {cpus}"));
                    format!("NUMA node {at}{cpus}")
                }
                None => "NUMA node unknown".to_owned(),
            };
            bands.push((title, tree::host_bridges(here)));
        }
        if !unplaced.is_empty() {
            let parts = unplaced.into_iter().map(|leaf| TreePart::End(leaf, 0));
            bands.push(("PCI path unknown, or none".to_owned(), parts.collect()));
        }
        let levels = bands.iter().flat_map(|(_, parts)| parts).map(depth).max();
        let leaf_at = FIRST + levels.unwrap_or(0) * STEP;
        let has_ports = self.topology.nics.iter().any(|nic| !nic.ports.is_empty());
        let mut canvas = Canvas {
            drawing: self,
            paths: placed.iter().flat_map(|(_, here)| here).collect(),
            leaf_at,
            right: leaf_at + LEAF + 16 + if has_ports { PORT + 16 } else { 0 },
            y: 8,
            shapes: Markup::default(),
            gpus: Vec::new(),
        };
        let mut back = Markup::default();
        for (title, parts) in &bands {
            let top = canvas.y;
            canvas.y += 34;
            for part in parts {
                canvas.part(part, 0);
            }
            let place = [8, top, canvas.right - 8, canvas.y - top];
            card(&mut back, "band", place, [title, "", ""]);
            canvas.y += 12;
        }
        let width = canvas.right + canvas.nvlink() + 8;
        page.put(
            "<svg class=\"node\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" width=\"{}\" height=\"{}\" role=\"img\">\n",
            &[&width, &canvas.y, &width, &canvas.y],
        );
        if !style.is_empty() {
            page.put("<style>", &[]);
            page.put(style, &[]);
            page.put("</style>\n", &[]);
        }
        page.append(&back);
        page.append(&canvas.shapes);
        page.put("</svg>\n", &[]);
    }

    /// The class of a thing, and the checks that it fails; without verdicts neither.
    fn mark<'n>(&self, of: impl IntoIterator<Item = (Subject, &'n str)>) -> (&'static str, String) {
        self.marks
            .as_ref()
            .map_or(("plain", String::new()), |marks| marks.worst(of))
    }
}

/// How many levels of forks there are.
fn depth(part: &TreePart) -> usize {
    match part {
        TreePart::Fork(_, parts) => 1 + parts.iter().map(depth).max().unwrap_or(0),
        TreePart::End(..) => 0,
    }
}

/// A box with two lines; what they say in full, and which checks fail, shows where a pointer rests on it.
fn card(shapes: &mut Markup, class: &str, place: [usize; 4], [head, rest, checks]: [&str; 3]) {
    let [x, y, width, height] = place;
    // In the mean a letter takes six units.
    let fits = |line: &str| shortened(line, (width - 12) / 6, "…");
    shapes.put(
        "<g class=\"{}\"><title>{} {} {}</title><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"6\"/>\
         <text class=\"name\" x=\"{}\" y=\"{}\">{}</text><text class=\"small\" x=\"{}\" y=\"{}\">{}</text></g>\n",
        &[
            &class, &head, &rest, &checks, &x, &y, &width, &height,
            &(x + 10), &(y + 16), &fits(head), &(x + 10), &(y + 31), &fits(rest),
        ],
    );
}

struct Canvas<'d> {
    drawing: &'d NodeDrawing,
    paths: Vec<&'d PlacedLeaf<'d>>,
    leaf_at: usize,
    /// The right edge of what is drawn, NVLink left out.
    right: usize,
    /// Where the next row begins.
    y: usize,
    shapes: Markup,
    /// Each GPU with the middle of its row.
    gpus: Vec<(usize, usize)>,
}

impl<'d> Canvas<'d> {
    /// Draws a part; the middle of its row, and the path of a leaf of it.
    fn part(&mut self, part: &TreePart, level: usize) -> (usize, &'d [String]) {
        let (name, parts) = match part {
            TreePart::End(leaf, hidden) => return self.leaf(*leaf, *hidden),
            TreePart::Fork(name, parts) => (name, parts),
        };
        let ends = parts.iter().map(|part| (self.part(part, level + 1), part));
        let ends: Vec<_> = ends.collect();
        let middles = || ends.iter().map(|((middle, _), _)| *middle);
        let y = (middles().min().unwrap_or(0) + middles().max().unwrap_or(0)) / 2;
        let x = FIRST + level * STEP;
        let (kind, address) = name.rsplit_once(' ').unwrap_or(("", name));
        for ((middle, path), child) in &ends {
            let (to, below) = match child {
                TreePart::Fork(name, _) => (x + STEP, name.rsplit(' ').next()),
                TreePart::End(..) => (self.leaf_at, path.last().map(String::as_str)),
            };
            // The links from the one to the other, those of ports that are left out too.
            let place = |of: &str| path.iter().position(|one| one == of);
            let first = place(address).map_or(0, |at| at + 1);
            let last = below.and_then(place).map_or(path.len(), |at| at + 1);
            self.edge(
                (x + FORK, y),
                (to, *middle),
                path.get(first..last).unwrap_or(&[]),
            );
        }
        let (class, checks) = match kind {
            // No check judges one.
            "host bridge" => ("plain", String::new()),
            _ => self.drawing.mark([(Subject::Bridge, address)]),
        };
        let place = [x, y - CARD / 2, FORK, CARD];
        card(&mut self.shapes, class, place, [kind, address, &checks]);
        (y, ends.first().map_or(&[], |((_, path), _)| path))
    }

    /// The line to what is below, with the narrowest of the links that it stands for.
    fn edge(&mut self, from: (usize, usize), to: (usize, usize), passed: &[String]) {
        let hops = self.drawing.topology.hops.iter();
        let hops: Vec<_> = hops.filter(|hop| passed.contains(&hop.pci)).collect();
        let narrow = hops.iter().find(|hop| hop.narrow);
        let (class, checks) = self
            .drawing
            .mark(passed.iter().map(|name| (Subject::Hop, name.as_str())));
        let link = narrow.or(hops.last()).map(|hop| hop.link);
        let lanes = link.map_or(String::new(), |link| {
            format!("Gen{} x{}", link.generation, link.width)
        });
        let words = link_words(link).map_or(String::new(), |words| words.to_string());
        let line = format!("M{} {}H{}V{}H{}", from.0, from.1, to.0 - 58, to.1, to.0);
        self.shapes.put(
            "<g class=\"hop {}{}\"><title>{} {}</title><path d=\"{}\"/><text class=\"small\" x=\"{}\" y=\"{}\">{}</text></g>\n",
            &[&class, &narrow.map_or("", |_| " narrow"), &words, &checks, &line, &(to.0 - 4), &(to.1 - 5), &lanes],
        );
    }

    fn leaf(&mut self, leaf: TreeLeaf, hidden: usize) -> (usize, &'d [String]) {
        let topology = &self.drawing.topology;
        let path = self.paths.iter().find(|one| one.end == leaf);
        let (y, middle) = (self.y, self.y + CARD / 2);
        let (words, ports, (class, checks)) = match leaf {
            TreeLeaf::Gpu(at) => {
                let gpu = &topology.gpus[at];
                self.gpus.push((at, middle));
                let mark = self.drawing.mark([(Subject::Gpu, gpu.pci.as_str())]);
                (gpu_words(gpu, hidden), [].as_slice(), mark)
            }
            TreeLeaf::Nic(at) => {
                let nic = &topology.nics[at];
                let devices = nic
                    .devices
                    .iter()
                    .map(|name| (Subject::Device, name.as_str()));
                let function = nic.pci.iter().map(|pci| (Subject::Function, pci.as_str()));
                let mark = self.drawing.mark(devices.chain(function));
                (nic_words(nic, hidden), nic.ports.as_slice(), mark)
            }
        };
        // The line to it shows the link, and ports have their own cards.
        let is_own = |word: &&str| !word.starts_with("PCIe ") && !word.starts_with("port ");
        let words: Vec<&str> = words.iter().map(|word| &**word).filter(is_own).collect();
        let (head, rest) = words.split_at(2.min(words.len()));
        let place = [self.leaf_at, y, LEAF, CARD];
        let lines = [head.join("  "), rest.join(" · "), checks];
        card(
            &mut self.shapes,
            class,
            place,
            lines.each_ref().map(String::as_str),
        );
        for (at, port) in ports.iter().enumerate() {
            let x = self.leaf_at + LEAF + 16;
            let (class, checks) = self.drawing.mark([(Subject::Port, port.name.as_str())]);
            self.shapes
                .put("<path d=\"M{} {}h16\"/>", &[&(x - 16), &middle]);
            let words = port_words(port);
            let (state, more) = words.split_at(words.find("/s ").map_or(words.len(), |at| at + 2));
            let place = [x, y + at * ROW, PORT, CARD];
            card(
                &mut self.shapes,
                class,
                place,
                [state, more.trim(), &checks],
            );
        }
        self.y += ROW * ports.len().max(1);
        (middle, path.map_or(&[], |one| one.path))
    }

    /// NVLink: one line that joins the GPUs where most are connected with most, else an arc for each two; how wide that is.
    fn nvlink(&mut self) -> usize {
        let topology = &self.drawing.topology;
        let pci = |gpu: usize| topology.gpus[gpu].pci.as_str();
        let mut pairs: Vec<[(usize, usize); 2]> = Vec::new();
        let mut counts: Vec<u64> = Vec::new();
        for (at, a) in self.gpus.iter().enumerate() {
            for b in self.gpus.iter().skip(at + 1) {
                let pair = topology.pair(pci(a.0), pci(b.0));
                if let Some(links @ 1..) = pair.and_then(|pair| pair.nvlinks) {
                    pairs.push([*a, *b]);
                    counts.push(links);
                }
            }
        }
        let (Some(least), Some(most)) = (counts.iter().min(), counts.iter().max()) else {
            return 0;
        };
        let (from, right) = (self.leaf_at + LEAF, self.right + 22);
        let shapes = &mut self.shapes;
        shapes.put("<g class=\"nvlink\">", &[]);
        if self.gpus.len() > 2 && pairs.len() >= self.gpus.len() {
            let joined = self
                .gpus
                .iter()
                .filter(|gpu| pairs.iter().any(|pair| pair.contains(gpu)));
            let rows: Vec<usize> = joined.clone().map(|(_, y)| *y).collect();
            for (gpu, y) in joined {
                let (class, checks) = self.drawing.mark([(Subject::Nvlink, pci(*gpu))]);
                shapes.put(
                    "<path class=\"{}\" d=\"M{} {}H{}\"><title>{}</title></path>",
                    &[&class, &from, y, &right, &checks],
                );
            }
            let (top, bottom) = (rows.first().unwrap_or(&0), rows.last().unwrap_or(&0));
            let label = match least == most {
                true => format!("NV{most} between GPUs"),
                false => format!("NV{least} to NV{most} between GPUs"),
            };
            shapes.put(
                "<path class=\"rail\" d=\"M{} {}V{}\"/><text class=\"middle\" transform=\"translate({} {}) rotate(90)\">{}</text></g>\n",
                &[&right, top, bottom, &(right + 8), &((top + bottom) / 2), &label],
            );
            return 46;
        }
        let mut width = 0;
        for ([(a, above), (b, below)], links) in pairs.iter().zip(&counts) {
            let (class, checks) = self
                .drawing
                .mark([*a, *b].map(|gpu| (Subject::Nvlink, pci(gpu))));
            let x = right + (below - above) / 4;
            let arc = format!("M{from} {above}C{x} {above} {x} {below} {from} {below}");
            shapes.put(
                "<path class=\"{}\" d=\"{}\"><title>{}</title></path><text class=\"small\" x=\"{}\" y=\"{}\">NV{}</text>",
                &[&class, &arc, &checks, &(from + (x - from) * 3 / 4 + 4), &((above + below) / 2 + 4), links],
            );
            width = width.max(x - self.right);
        }
        shapes.put("</g>\n", &[]);
        width
    }
}
