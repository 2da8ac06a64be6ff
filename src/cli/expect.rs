//! `rdma-doctor expect learn`: the inventory of good nodes, for the site's file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::input::{self, BadInput};
use super::{output, site_config};
use crate::check::{InventoryItem, items_of};
use crate::examine::one;
use crate::exit::Exit;
use crate::fact::Value;
use crate::fact::inventory::InventoryKind as Kind;
use crate::report::plural;

/// What a site expects of its nodes.
#[derive(Debug, Args)]
pub struct ExpectArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: ExpectCommand,
}

/// What to do with expectations.
#[derive(Debug, Subcommand)]
pub enum ExpectCommand {
    /// Print the inventory that most of these nodes have, for /etc/rdma-doctor/config.toml; what some have different is a comment
    Learn {
        /// Recordings of good nodes of one kind
        #[arg(value_name = "RECORDING", required = true)]
        recordings: Vec<PathBuf>,
        /// For which nodes it will be, as n[01-16]; for all without it
        #[arg(long, value_name = "NODES")]
        nodes: Option<String>,
    },
}

/// Tables in the order of the file; in each, keys with the number of nodes that have each value.
type Votes = BTreeMap<(u8, String), BTreeMap<String, Vec<(String, usize)>>>;

/// Runs the subcommand.
///
/// # Errors
///
/// [`BadInput`] where a recording cannot be read, is none of a node, or has nothing that can be expected.
pub fn run(args: &ExpectArgs) -> anyhow::Result<Exit> {
    let ExpectCommand::Learn { recordings, nodes } = &args.command;
    let mut votes = Votes::new();
    let mut count = 0;
    for path in recordings {
        for recording in input::open(&[path])? {
            let (facts, of) = one::facts(&[recording]);
            if of.is_empty() {
                return Err(BadInput::of(path, "a recording of no node").into());
            }
            count += of.len();
            for item in of.iter().flat_map(|node| items_of(&facts, node.id)) {
                let (table, key, value) = entry(&item)?;
                let values = votes.entry(table).or_default().entry(key).or_default();
                match values.iter_mut().find(|(known, _)| *known == value) {
                    Some((_, votes)) => *votes += 1,
                    None => values.push((value, 1)),
                }
            }
        }
    }
    if votes.is_empty() {
        let [first, ..] = recordings.as_slice() else {
            anyhow::bail!("no recording was given");
        };
        let what = "no GPU, adapter or NCCL in it, and nothing to expect";
        return Err(BadInput::of(first, what).into());
    }
    let text = written(votes, count, nodes.as_deref())?;
    output::print(|out| out.write_all(text.as_bytes()))?;
    Ok(Exit::Healthy)
}

/// The table, the key and the value of an item in the site's file.
fn entry(item: &InventoryItem) -> serde_json::Result<((u8, String), String, String)> {
    // A string of JSON is one of TOML.
    let of = serde_json::to_string(&item.of)?;
    let (table, key) = match item.kind {
        Kind::Gpus => ((0, "gpus".to_owned()), of),
        Kind::Adapters => ((1, "adapters".to_owned()), of),
        Kind::Nccl => ((3, "nccl".to_owned()), of),
        kind => ((2, format!("rails.{of}")), kind.word().to_owned()),
    };
    let value = match &item.value {
        Value::Count(count) => count.to_string(),
        value => serde_json::to_string(&value.to_string())?,
    };
    Ok((table, key, value))
}

/// The inventory that more than half of the nodes have.
fn written(votes: Votes, nodes: usize, of: Option<&str>) -> anyhow::Result<String> {
    let count = plural(nodes as u64, "recorded node");
    let place = site_config::PATH;
    let mut text = format!("# What most of {count} have. For {place}\n[[expect]]\n");
    if let Some(of) = of {
        writeln!(text, "nodes = {}", serde_json::to_string(of)?)?;
    }
    for ((_, table), keys) in votes {
        writeln!(text, "\n[expect.{table}]")?;
        for (key, mut values) in keys {
            values.sort_by_key(|(_, votes)| std::cmp::Reverse(*votes));
            for (value, votes) in values {
                match votes {
                    all if all == nodes => writeln!(text, "{key} = {value}")?,
                    most if most * 2 > nodes => {
                        writeln!(text, "{key} = {value}  # on {most} of {nodes}")?;
                    }
                    few => writeln!(text, "# {key} = {value} on {few} of {nodes}")?,
                }
            }
        }
    }
    Ok(text)
}
