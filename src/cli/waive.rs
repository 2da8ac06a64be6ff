//! `rdma-doctor waive`: an entry of the site's waivers, ready to be appended.

use std::time::{Duration, UNIX_EPOCH};

use clap::Args;

use super::input::{self, bad_usage};
use super::{output, site_checks};
use crate::check::Waivers;
use crate::exit::Exit;
use crate::live::{clock, environment};

/// Print an entry of waivers.toml.
#[derive(Debug, Args)]
pub struct WaiveArgs {
    /// The check's id, or a pattern of ids as link/*
    pub id: String,
    /// For what: the subject as the report names it, such as mlx5_3/1, or a pattern; for any without it
    #[arg(long, value_name = "NAME")]
    pub subject: Option<String>,
    /// On which nodes, as n[01-16]; on all without it
    #[arg(long, value_name = "NODES")]
    pub nodes: Option<String>,
    /// The last day, in UTC: a date as 2027-03-31, or a number of days from today as 90d
    #[arg(long, value_name = "DAY")]
    pub until: String,
    /// Why the finding is accepted
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// Owner of the waiver; by default the user who prints the entry
    #[arg(long, value_name = "NAME")]
    pub owner: Option<String>,
}

/// Runs the subcommand.
///
/// # Errors
///
/// [`bad_usage`] for an entry that would waive nothing.
pub fn run(args: &WaiveArgs) -> anyhow::Result<Exit> {
    let entry = entry(args)?;
    let catalogue = input::site_catalogue()?;
    let read = Waivers::read(String::new(), Ok(&entry), &catalogue);
    if let Some(problem) = read.problem() {
        return Err(bad_usage(problem));
    }
    output::print(|out| {
        writeln!(out, "# Append to {}", site_checks::WAIVERS)?;
        out.write_all(entry.as_bytes())
    })?;
    Ok(Exit::Healthy)
}

fn entry(args: &WaiveArgs) -> anyhow::Result<String> {
    let until = last_day(&args.until)?;
    let user = || environment::user_names().pop();
    let owner = args.owner.clone().or_else(user);
    let owner = owner.unwrap_or_else(|| "root".into());
    let fields = [
        ("check", Some(&args.id)),
        ("subject", args.subject.as_ref()),
        ("nodes", args.nodes.as_ref()),
        ("reason", Some(&args.reason)),
        ("owner", Some(&owner)),
        ("until", Some(&until)),
    ];
    let mut entry = "[[waiver]]\n".to_owned();
    for (key, value) in fields {
        if let Some(value) = value {
            // A string of JSON is one of TOML.
            let value = serde_json::to_string(value)?;
            entry.push_str(&format!("{key:<7} = {value}\n"));
        }
    }
    Ok(entry)
}

/// The day that is meant, which has not passed.
fn last_day(text: &str) -> anyhow::Result<String> {
    let days = text
        .strip_suffix('d')
        .and_then(|days| days.parse::<u32>().ok());
    let after = days.and_then(|days| {
        let now = clock::utc_now();
        let now = humantime::parse_rfc3339(&now).unwrap_or(UNIX_EPOCH);
        let then = now.checked_add(Duration::from_secs(u64::from(days) * 86_400))?;
        Some(humantime::format_rfc3339_seconds(then).to_string())
    });
    let day = after
        .as_deref()
        .and_then(|then| then.get(..10))
        .unwrap_or(text);
    if *day < clock::utc_now()[..10] {
        return Err(bad_usage(format!("--until {day}: that day has passed")));
    }
    Ok(day.to_owned())
}
