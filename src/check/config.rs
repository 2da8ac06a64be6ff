//! The site's file, `/etc/rdma-doctor/config.toml`. Manual page: rdma-doctor-config(5).
//!
//! ```toml
//! format  = "text"
//! skip    = ["link/not-trained"]
//! require = ["ports", "gpus"]
//!
//! [limits."kernel/xid-gpu-fault"]
//! recent = "2 h"
//!
//! [[expect]]
//! nodes = "n[01-16]"
//! [expect.gpus]
//! "NVIDIA H100 80GB HBM3" = 8
//! [expect.rails."mlx5_0/1"]
//! netdev = "ib0"
//! rate   = "400 Gb/s"
//! ```

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Catalogue;
use super::diagnostic::{CheckError, Complaint};
use super::file::{
    Document, Item, as_count, as_table, as_text, items, known_keys, limit, texts, wrong_type,
};
use super::inventory::{Inventory, InventoryItem, NodeInventory};
use super::limits;
use crate::fact::inventory::InventoryKind as Kind;
use crate::fact::{Bytes, Value};
use crate::nodeset;

const KEYS: [&str; 5] = ["format", "skip", "require", "limits", "expect"];
const EXPECT: [&str; 5] = ["nodes", "gpus", "adapters", "rails", "nccl"];
const RAIL: [Kind; 4] = [Kind::Netdev, Kind::Rate, Kind::Mtu, Kind::GidIndex];

/// What a site sets once for all its runs.
#[derive(Debug, Default)]
pub struct SiteConfig {
    path: String,
    text: String,
    /// The report's format.
    pub format: Option<String>,
    /// Checks that are left out: ids, or patterns of ids.
    pub skip: Vec<String>,
    /// The areas that must have been examined: names, `all`, or `none`.
    pub require: Vec<String>,
}

impl SiteConfig {
    /// Reads a file's text. Limits and the inventory are read by [`apply`](Self::apply), which knows the checks.
    ///
    /// # Errors
    ///
    /// A key, a value or a type that does not fit, with its place.
    pub fn read(path: String, text: String) -> Result<Self, CheckError> {
        let document = Document::new(&path, &text);
        let table = document.table()?;
        let read = || {
            known_keys(&table, &KEYS)?;
            let format = table.get("format").map(as_text).transpose()?;
            let require = match table.get("require").map(Spanned::get_ref) {
                Some(DeValue::String(word)) => vec![word.to_string()],
                _ => texts(&table, "require")?,
            };
            Ok((format.map(str::to_owned), texts(&table, "skip")?, require))
        };
        let (format, skip, require) = read().map_err(|complaint| document.error(&complaint))?;
        drop(table);
        Ok(SiteConfig {
            path,
            text,
            format,
            skip,
            require,
        })
    }

    /// Where it was read; empty if there is none.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Sets the limits and the inventory of a catalogue that has all its checks.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn apply(&self, catalogue: &mut Catalogue) -> Result<(), CheckError> {
        let document = Document::new(&self.path, &self.text);
        let table = document.table()?;
        if let Some(item) = table.get("limits") {
            let set = as_table(item, "a table: [limits.\"directory/name\"]");
            let set = set.map_err(|complaint| document.error(&complaint))?;
            limits::set(catalogue, &document, set)?;
        }
        let groups = || {
            items(&table, "expect", "a list of tables: write [[expect]]")?
                .map(|group| inventory(&document, as_table(group, "a table")?))
                .collect()
        };
        let groups: Result<_, Complaint> = groups();
        catalogue.inventory = Inventory {
            file: self.path.as_str().into(),
            groups: groups.map_err(|complaint| document.error(&complaint))?,
        };
        Ok(())
    }
}

fn inventory(document: &Document<'_>, table: &DeTable<'_>) -> Result<NodeInventory, Complaint> {
    known_keys(table, &EXPECT)?;
    let nodes = table.get("nodes").map(|item| {
        let wrong = |error| Complaint::new(item.span(), format!("`nodes`: {error}"));
        nodeset::expand(as_text(item)?).map_err(wrong)
    });
    let mut items = Vec::new();
    for (key, kind) in [
        ("gpus", Kind::Gpus),
        ("adapters", Kind::Adapters),
        ("nccl", Kind::Nccl),
    ] {
        for (of, item) in entries(table, key)? {
            let value = match kind {
                Kind::Nccl => Value::Text(as_text(item)?.into()),
                _ => Value::Count(as_count(item)?),
            };
            items.push(InventoryItem {
                kind,
                of: of.into(),
                value,
            });
        }
    }
    for (of, rail) in entries(table, "rails")? {
        let rail = as_table(rail, "a table: [expect.rails.\"mlx5_0/1\"]")?;
        known_keys(rail, &RAIL.map(Kind::word))?;
        let stated = |kind: Kind| Some((kind, rail.get(kind.word())?));
        for (kind, item) in RAIL.into_iter().filter_map(stated) {
            let value = of_rail(document, kind, item)?;
            items.push(InventoryItem {
                kind,
                of: of.into(),
                value,
            });
        }
    }
    Ok(NodeInventory {
        nodes: nodes.transpose()?.map(|names| names.into_iter().collect()),
        items,
    })
}

fn of_rail(
    document: &Document<'_>,
    kind: Kind,
    item: &Spanned<DeValue<'_>>,
) -> Result<Value, Complaint> {
    if kind == Kind::Netdev {
        return Ok(Value::Text(as_text(item)?.into()));
    }
    match (kind, limit(document, item)?) {
        (Kind::Mtu, Value::Count(bytes)) => Ok(Value::Bytes(Bytes(bytes))),
        (Kind::Mtu, value @ Value::Bytes(_))
        | (Kind::Rate, value @ Value::BitRate(_))
        | (Kind::GidIndex, value @ Value::Count(_)) => Ok(value),
        (Kind::Mtu, _) => Err(wrong_type(item, "a number of bytes, as \"4096 B\"")),
        (Kind::Rate, _) => Err(wrong_type(item, "a rate, as \"400 Gb/s\"")),
        _ => Err(wrong_type(item, "a whole number, not negative")),
    }
}

type Entry<'t, 's> = (&'t str, Item<'t, 's>);

/// The entries of a table in a table; none if it is absent.
fn entries<'t, 's>(table: &'t DeTable<'s>, key: &str) -> Result<Vec<Entry<'t, 's>>, Complaint> {
    let Some(item) = table.get(key) else {
        return Ok(Vec::new());
    };
    let entries = as_table(item, "a table")?.iter();
    Ok(entries
        .map(|(name, item)| (&**name.get_ref(), item))
        .collect())
}
