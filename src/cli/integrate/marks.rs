//! The marks in the files of configurations, and what takes their places.
//!
//! The Helm chart's templates are the manifests of Kubernetes: what is an option's value in a
//! manifest is a value of the chart in a template.

use super::{IntegrateArgs, SCRIPT};

/// Where the `DaemonSet` copies the doctor to, on each node.
const COPIED_DOCTOR: &str = "/opt/rdma-doctor/rdma-doctor";

/// How a user makes the key of the Job's pods; Helm makes it in a chart.
const MAKE_KEY: &str = "\
    Before it, a key that the pods know each other by:\n\
    #   kubectl create secret generic rdma-doctor --from-literal=key=\"$(openssl rand -hex 32)\"\n";

/// A mark, and what takes its place.
pub(super) struct Mark {
    name: &'static str,
    /// In a file that is used as it is.
    value: String,
    /// In a template of the chart.
    template: String,
}

/// The marks, with the options' values.
pub(super) fn list_marks(args: &IntegrateArgs) -> Vec<Mark> {
    let plugin = include_str!("npd.json").trim_end();
    let metrics = args.metrics.trim_end_matches('/');
    let version = env!("CARGO_PKG_VERSION");
    vec![
        // It has marks itself, so it comes before them.
        everywhere("@NPD@", &plugin.replace('\n', "\n    ")),
        everywhere("@SCRIPT@", SCRIPT),
        everywhere("@VERSION@", version),
        by_value("@DOCTOR@", &args.doctor, COPIED_DOCTOR),
        by_value("@IMAGE@", &args.image, "{{ .Values.image }}"),
        by_value("@METRICS@", metrics, "{{ .Values.metrics }}"),
        by_value(
            "@NODES@",
            &args.nodes.to_string(),
            // Helm reads a number as one with a fraction.
            "{{ .Values.nodes | int }}",
        ),
        by_value(
            "@SELECTOR@",
            "feature.node.kubernetes.io/rdma.available: \"true\"",
            "{{- toYaml .Values.nodeSelector | nindent 8 }}",
        ),
        by_value(
            "@LIMITS@",
            "memory: 1Gi",
            "{{- toYaml .Values.limits | nindent 14 }}",
        ),
        by_value("@KEY@\n", MAKE_KEY, "job-key.yaml has the pods' key.\n"),
        // `helm test` runs the Job, as often as one likes.
        by_value("  @HOOK@\n", "", "  annotations:\n    helm.sh/hook: test\n"),
    ]
}

fn everywhere(name: &'static str, value: &str) -> Mark {
    by_value(name, value, value)
}

fn by_value(name: &'static str, value: &str, template: &str) -> Mark {
    Mark {
        name,
        value: value.to_owned(),
        template: template.to_owned(),
    }
}

/// The text of a file for this path, with what takes the place of each mark.
pub(super) fn fill_marks(path: &str, text: &str, marks: &[Mark]) -> String {
    let is_template = path.contains("/templates/");
    let mut filled = text.to_owned();
    for mark in marks {
        let replacement = if is_template {
            &mark.template
        } else {
            &mark.value
        };
        filled = filled.replace(mark.name, replacement);
    }
    filled
}
