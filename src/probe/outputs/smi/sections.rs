//! The fields of `nvidia-smi -q` as text and as XML, a section for each GPU.

use crate::probe::outputs::{Output, OutputLine};

/// A value with the names that lead to it, in small letters: `ecc_errors/volatile/dram_uncorrectable`.
#[derive(Clone)]
pub(super) struct Field<'p> {
    path: String,
    pub(super) value: String,
    pub(super) line: OutputLine<'p>,
}

/// The fields of one GPU, or of the machine before the first.
#[derive(Default)]
pub(super) struct Section<'p> {
    pub(super) address: Option<String>,
    pub(super) fields: Vec<Field<'p>>,
}

impl<'p> Section<'p> {
    /// Fields without headings, a section for each GPU: what is said a second time is of the next.
    pub(super) fn divided(&self) -> Vec<Section<'p>> {
        let mut sections: Vec<Section<'p>> = Vec::new();
        for field in &self.fields {
            match sections.last_mut() {
                Some(last) if last.fields.iter().all(|one| one.path != field.path) => {
                    last.fields.push(field.clone());
                }
                _ => sections.push(Section {
                    address: None,
                    fields: vec![field.clone()],
                }),
            }
        }
        sections
    }

    /// The first field whose path ends like one of these, and which is understood, with its line.
    pub(super) fn find<T>(
        &self,
        ends: &[&str],
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<(T, OutputLine<'p>)> {
        ends.iter().find_map(|end| {
            let fits = |field: &&Field<'p>| {
                let rest = field.path.strip_suffix(end);
                rest.is_some_and(|rest| rest.is_empty() || rest.ends_with(['/', '_']))
            };
            let mut fitting = self.fields.iter().filter(fits);
            fitting.find_map(|field| Some((parse(&field.value)?, field.line)))
        })
    }

    /// The sum of counters below a heading.
    pub(super) fn sum(&self, heading: &str, end: &str) -> Option<(u64, OutputLine<'p>)> {
        let fits = |field: &&Field<'p>| {
            let below = field.path.split_once(heading);
            below.is_some_and(|(_, name)| {
                !name.contains("threshold")
                    && name.contains(end)
                    && !(end == "_correctable" && name.contains("uncorrectable"))
            })
        };
        let mut fields = self.fields.iter().filter(fits);
        let first = fields.next()?;
        let mut sum: u64 = first.value.parse().ok()?;
        for field in fields {
            sum = sum.saturating_add(field.value.parse().ok()?);
        }
        Some((sum, first.line))
    }
}

/// A name in small letters, its words joined.
fn key(name: &str) -> String {
    let joined = name.trim().chars().map(|c| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '_'
        }
    });
    joined.collect()
}

/// The lines of `-q`: a name of four more columns of indentation is below the one before.
pub(super) fn of_text(output: &Output) -> Vec<Section<'_>> {
    let mut sections = vec![Section::default()];
    let mut above: Vec<(usize, String)> = Vec::new();
    for line in output.lines() {
        let indent = line.text.len() - line.text.trim_start().len();
        let (name, value) = match line
            .text
            .split_once(" : ")
            .or_else(|| Some((line.text.trim_end().strip_suffix(" :")?, "")))
        {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (line.text.trim(), None),
        };
        if indent == 0 && name.starts_with("GPU ") && name.contains(':') {
            above.clear();
            sections.push(Section {
                address: name.strip_prefix("GPU ").map(str::to_owned),
                fields: Vec::new(),
            });
            continue;
        }
        while above.last().is_some_and(|(of, _)| *of >= indent) {
            above.pop();
        }
        let mut path: String = above
            .iter()
            .flat_map(|(_, name)| [name.as_str(), "/"])
            .collect();
        path.push_str(&key(name));
        if let (Some(value), Some(section)) = (value, sections.last_mut()) {
            section.fields.push(Field {
                path,
                value: value.to_owned(),
                line,
            });
        }
        if above.len() < 8 && !name.is_empty() {
            above.push((indent, key(name)));
        }
    }
    sections
}

/// The lines of `-q -x`: an element a line.
pub(super) fn of_xml(output: &Output) -> Vec<Section<'_>> {
    let mut sections = vec![Section::default()];
    let mut above: Vec<String> = Vec::new();
    for line in output.lines() {
        let text = line.text.trim();
        if text.starts_with("</") {
            above.pop();
        } else if let Some(address) = text
            .strip_prefix("<gpu id=\"")
            .and_then(|t| t.split('"').next())
        {
            above.clear();
            sections.push(Section {
                address: Some(address.to_owned()),
                fields: Vec::new(),
            });
        } else if let Some((name, rest)) = text.strip_prefix('<').and_then(|t| t.split_once('>')) {
            match rest.split_once("</") {
                Some((value, _)) => {
                    let path = format!("{}/{}", above.join("/"), key(name));
                    if let Some(section) = sections.last_mut() {
                        section.fields.push(Field {
                            path,
                            value: value.trim().to_owned(),
                            line,
                        });
                    }
                }
                None if name.starts_with(['?', '!'])
                    || name.ends_with('/')
                    || above.len() >= 16 => {}
                None => above.push(key(name)),
            }
        }
    }
    sections
}

/// The rows of `--query-gpu=… --format=csv`, one a GPU: the names of columns are those of the query, or of the first line.
pub(super) fn of_csv(output: &Output) -> Vec<Section<'_>> {
    let asked = output
        .argv
        .iter()
        .find_map(|arg| arg.strip_prefix("--query-gpu="));
    let names = |line: &str| -> Vec<String> {
        let each = line
            .split(',')
            .map(|name| name.split('[').next().unwrap_or(name));
        each.map(key).collect()
    };
    let mut lines = output.lines().filter(|line| line.text.contains(','));
    let columns = match asked {
        Some(asked) => names(asked),
        None => lines
            .next()
            .map(|line| names(line.text))
            .unwrap_or_default(),
    };
    let mut sections = Vec::new();
    for line in lines {
        let values: Vec<&str> = line.text.split(',').map(str::trim).collect();
        let fields = columns.iter().zip(&values).map(|(path, value)| Field {
            path: path.clone(),
            value: (*value).to_owned(),
            line,
        });
        let at = columns
            .iter()
            .position(|name| name == "pci_bus_id" || name == "gpu_bus_id");
        let address = at
            .and_then(|at| values.get(at))
            .filter(|address| address.contains(':'));
        if values.len() == columns.len() {
            sections.push(Section {
                address: address.map(|address| (*address).to_owned()),
                fields: fields.collect(),
            });
        }
    }
    sections
}
