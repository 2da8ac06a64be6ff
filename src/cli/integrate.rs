//! `rdma-doctor integrate`: ready configurations for what runs checks by itself.

mod marks;

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};

use self::marks::{fill_marks, list_marks};
use super::input::bad_usage;
use super::output;
use crate::exit::Exit;
use crate::live::files;
use crate::terminal;

/// Print a ready configuration for a scheduler or a monitor.
///
/// What takes several files prints them one after the other, each under its path; with --into they are written below a directory, as /.
#[derive(Debug, Args)]
pub struct IntegrateArgs {
    /// For what
    #[arg(value_enum)]
    pub what: IntegrationTarget,
    /// The doctor's path on the nodes
    #[arg(
        long,
        value_name = "PATH",
        default_value = "/usr/local/bin/rdma-doctor"
    )]
    pub doctor: String,
    /// Kubernetes, Helm, GitHub, GitLab: the image that holds the doctor
    #[arg(long, value_name = "IMAGE", default_value = concat!("rdma-doctor:", env!("CARGO_PKG_VERSION")))]
    pub image: String,
    /// Kubernetes, Helm: on how many nodes the Job runs
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(2..=100_000))]
    pub nodes: u64,
    /// Prometheus, Kubernetes, Helm: where node_exporter's textfile collector looks
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/var/lib/prometheus/node-exporter"
    )]
    pub metrics: String,
    /// Write the files below this directory in place of printing them
    #[arg(long, value_name = "DIR")]
    pub into: Option<PathBuf>,
}

/// For what a configuration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IntegrationTarget {
    /// Slurm: a Prolog and HealthCheckProgram that drains a node for errors, with the finding as the reason.
    Slurm,
    /// Kubernetes' node-problem-detector: a monitor by a custom plugin, which sets a condition of the node. It runs the doctor where it runs itself: as a
    /// service of the node, or in its container, into which the doctor is mounted.
    Npd,
    /// Nagios, Icinga, Naemon: the command and the service, and NRPE's line for the nodes.
    Nagios,
    /// Prometheus: a timer that writes metrics for node_exporter's textfile collector, and rules for alerts.
    Prometheus,
    /// Grafana: a dashboard of the metrics: status, areas and findings of each node, over time.
    Grafana,
    /// Kubernetes: a DaemonSet that examines each node, and an Indexed Job that judges several together.
    K8s,
    /// Helm: a chart with the DaemonSet, the Job, which `helm test` runs, and a ConfigMap with
    /// node-problem-detector's plugin. The options are its values.
    Helm,
    /// systemd: a unit that fails for errors, and its timer.
    Systemd,
    /// GitHub: a workflow that judges recordings in a repository.
    Github,
    /// GitLab: the same as a job.
    Gitlab,
}

/// A file of a configuration: for what, where it belongs, what is in it.
type File = (IntegrationTarget, &'static str, &'static str);

/// The prolog's path, which slurm.conf names; the one file that is run.
const SCRIPT: &str = "/etc/slurm/rdma-doctor.sh";

/// The files. Sources: Slurm's `slurm.conf(5)` and "Prolog and Epilog Guide"; node-problem-detector
/// `docs/custom_plugin_monitor.md`; Nagios Core's "Object definitions"; `systemd.service(5)`;
/// node_exporter's textfile collector; Grafana's "Dashboard JSON model"; Kubernetes' "Indexed Job
/// with Pod-to-Pod communication".
const FILES: &[File] = {
    use IntegrationTarget::{
        Github, Gitlab, Grafana, Helm, K8s, Nagios, Npd, Prometheus, Slurm, Systemd,
    };
    &[
        (Slurm, SCRIPT, include_str!("integrate/prolog.sh")),
        (
            Slurm,
            "/etc/slurm/rdma-doctor.conf",
            include_str!("integrate/slurm.conf"),
        ),
        (
            Npd,
            "/etc/node-problem-detector/rdma-doctor.json",
            include_str!("integrate/npd.json"),
        ),
        (
            Nagios,
            "/etc/nagios4/conf.d/rdma-doctor.cfg",
            include_str!("integrate/nagios.cfg"),
        ),
        (
            Nagios,
            "/etc/nagios/nrpe.d/rdma-doctor.cfg",
            include_str!("integrate/nrpe.cfg"),
        ),
        (
            Prometheus,
            "/etc/systemd/system/rdma-doctor-metrics.service",
            include_str!("integrate/metrics.service"),
        ),
        (
            Prometheus,
            "/etc/systemd/system/rdma-doctor-metrics.timer",
            include_str!("integrate/metrics.timer"),
        ),
        (
            Prometheus,
            "/etc/prometheus/rules/rdma-doctor.yaml",
            include_str!("integrate/alerts.yaml"),
        ),
        (
            Grafana,
            "/var/lib/grafana/dashboards/rdma-doctor.json",
            include_str!("integrate/grafana.json"),
        ),
        (
            K8s,
            "/rdma-doctor-daemonset.yaml",
            include_str!("integrate/daemonset.yaml"),
        ),
        (
            K8s,
            "/rdma-doctor-job.yaml",
            include_str!("integrate/job.yaml"),
        ),
        (
            Helm,
            "/rdma-doctor/Chart.yaml",
            include_str!("integrate/helm/Chart.yaml"),
        ),
        (
            Helm,
            "/rdma-doctor/values.yaml",
            include_str!("integrate/helm/values.yaml"),
        ),
        (
            Helm,
            "/rdma-doctor/templates/daemonset.yaml",
            include_str!("integrate/daemonset.yaml"),
        ),
        (
            Helm,
            "/rdma-doctor/templates/job.yaml",
            include_str!("integrate/job.yaml"),
        ),
        (
            Helm,
            "/rdma-doctor/templates/job-key.yaml",
            include_str!("integrate/helm/job-key.yaml"),
        ),
        (
            Helm,
            "/rdma-doctor/templates/npd.yaml",
            include_str!("integrate/helm/npd.yaml"),
        ),
        (
            Helm,
            "/rdma-doctor/templates/NOTES.txt",
            include_str!("integrate/helm/NOTES.txt"),
        ),
        (
            Github,
            "/.github/workflows/rdma-doctor.yaml",
            include_str!("integrate/github.yaml"),
        ),
        (
            Gitlab,
            "/.gitlab-ci.yml",
            include_str!("integrate/gitlab.yaml"),
        ),
        (
            Systemd,
            "/etc/systemd/system/rdma-doctor.service",
            include_str!("integrate/check.service"),
        ),
        (
            Systemd,
            "/etc/systemd/system/rdma-doctor.timer",
            include_str!("integrate/check.timer"),
        ),
    ]
};

/// Runs the subcommand.
///
/// # Errors
///
/// A path that no configuration can hold, an output that cannot be written.
pub fn run(args: &IntegrateArgs) -> anyhow::Result<Exit> {
    for (option, word) in [
        ("--doctor", &args.doctor),
        ("--image", &args.image),
        ("--metrics", &args.metrics),
    ] {
        // Shells, systemd, YAML and JSON each quote in their own way: what needs no quotes is the same in all.
        let fits = |c: char| c.is_ascii_alphanumeric() || "/._-+:@".contains(c);
        if word.is_empty() || !word.chars().all(fits) {
            let why = format!("{option} {word:?}: letters, digits and / . _ - + : @ only");
            return Err(bad_usage(why));
        }
    }
    for (option, path) in [("--doctor", &args.doctor), ("--metrics", &args.metrics)] {
        if !path.starts_with('/') {
            return Err(bad_usage(format!(
                "{option} {path:?}: a whole path, from / on"
            )));
        }
    }
    let files = FILES.iter().filter(|(what, ..)| *what == args.what);
    let marks = list_marks(args);
    if let Some(dir) = &args.into {
        for (_, path, text) in files {
            let filled = fill_marks(path, text, &marks);
            let to = dir.join(path.trim_start_matches('/'));
            files::install(&to, filled.as_bytes(), *path == SCRIPT)
                .with_context(|| format!("cannot write {}", terminal::path(&to)))?;
            output::print(|out| writeln!(out, "{}", terminal::path(&to)))?;
        }
        return Ok(Exit::Healthy);
    }
    let several = files.clone().count() > 1;
    output::print(|out| {
        for (at, (_, path, text)) in files.enumerate() {
            // Between documents of YAML this is a comment, as it is in all the others.
            if at > 0 {
                out.write_all(if args.what == IntegrationTarget::K8s {
                    b"---\n"
                } else {
                    b"\n"
                })?;
            }
            let filled = fill_marks(path, text, &marks);
            match filled.split_once('\n') {
                // The first line of a program says what runs it.
                Some((first, rest)) if several && *path == SCRIPT => {
                    write!(out, "{first}\n# {path}\n{rest}")?;
                }
                _ if several => write!(out, "# {path}\n{filled}")?,
                _ => write!(out, "{filled}")?,
            }
        }
        Ok(())
    })?;
    Ok(Exit::Healthy)
}
