use super::*;
use crate::fact::Key;
use crate::probe::testing;

/// The questions of a machine with two NUMA nodes, with these answers in place of the usual ones.
fn lines(status: &str, environment: &str) -> Vec<String> {
    let asked = r#"["CUDA_VISIBLE_DEVICES","LOCAL_WORLD_SIZE","OMPI_COMM_WORLD_LOCAL_SIZE","MPI_LOCALNRANKS","SLURM_STEP_TASKS_PER_NODE"]"#;
    vec![
        format!(r#"{{"q":{{"read":"/proc/self/status"}},"text":"{status}"}}"#),
        r#"{"q":{"list":"/sys/devices/system/node"},"names":["has_memory","node0","node1","node2","online"]}"#.to_owned(),
        r#"{"q":{"read":"/sys/devices/system/node/node0/cpulist"},"text":"0-7,16-23\n"}"#.to_owned(),
        r#"{"q":{"read":"/sys/devices/system/node/node1/cpulist"},"text":"8-15,24-31\n"}"#.to_owned(),
        // The memory of a device, without CPUs.
        r#"{"q":{"read":"/sys/devices/system/node/node2/cpulist"},"text":"\n"}"#.to_owned(),
        r#"{"q":{"read":"/sys/devices/system/node/has_memory"},"text":"0-1\n"}"#.to_owned(),
        format!(r#"{{"q":{{"env":{asked}}},"value":{environment}}}"#),
        r#"{"q":{"list":"/dev"},"names":["null","nvidia-uvm","nvidia0","nvidia1","nvidia10","nvidiactl"]}"#.to_owned(),
    ]
}

fn run(status: &str, environment: &str) -> (Facts, Id) {
    let lines = lines(status, environment);
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    testing::run(&PROBE, &lines)
}

const ALL: &str = "Name:\\tx\\nCpus_allowed_list:\\t0-31\\nMems_allowed_list:\\t0-1\\n";

fn list(facts: &Facts, node: Id, key: Key<Texts>) -> Option<String> {
    facts.known(node, key).map(|names| names.join(" "))
}

#[test]
fn a_process_that_may_run_everywhere() {
    let (facts, node) = run(ALL, "{}");
    assert_eq!(
        list(&facts, node, node::CPU_NODES_FORBIDDEN).as_deref(),
        Some("")
    );
    assert_eq!(
        list(&facts, node, node::MEMORY_NODES_FORBIDDEN).as_deref(),
        Some("")
    );
    assert_eq!(
        facts.known(node, node::CPUS_ALLOWED).as_deref(),
        Some("0-31")
    );
    assert_eq!(facts.known(node, node::LAUNCHED_TASKS), Some(1));
    assert_eq!(facts.known(node, node::GPUS_VISIBLE), Some(3));
}

#[test]
fn a_process_bound_to_one_socket() {
    let status = "Cpus_allowed_list:\\t8-11\\nMems_allowed_list:\\t1\\n";
    let environment = r#"{"CUDA_VISIBLE_DEVICES":"4,5","SLURM_STEP_TASKS_PER_NODE":"4(x2)","LOCAL_WORLD_SIZE":"nonsense"}"#;
    let (facts, node) = run(status, environment);
    assert_eq!(
        list(&facts, node, node::CPU_NODES_FORBIDDEN).as_deref(),
        Some("0")
    );
    assert_eq!(
        list(&facts, node, node::MEMORY_NODES_FORBIDDEN).as_deref(),
        Some("0")
    );
    assert_eq!(facts.known(node, node::LAUNCHED_TASKS), Some(4));
    assert_eq!(facts.known(node, node::GPUS_VISIBLE), Some(2));
}

#[test]
fn garbage_and_gaps_are_unknown() {
    let (facts, node) = run("Cpus_allowed_list:\\tall\\n", "{}");
    assert_eq!(list(&facts, node, node::CPU_NODES_FORBIDDEN), None);
    assert_eq!(list(&facts, node, node::MEMORY_NODES_FORBIDDEN), None);
    let (facts, node) = testing::run(&PROBE, &[]);
    assert_eq!(facts.known(node, node::LAUNCHED_TASKS), None);
    assert_eq!(facts.known(node, node::GPUS_VISIBLE), None);
}

#[test]
fn by_what_it_was_started() {
    let names: Vec<&str> = crate::launch::numbers().collect();
    let asked = serde_json::to_string(&names).unwrap();
    let said = |environment: &str| {
        let line = format!(r#"{{"q":{{"env":{asked}}},"value":{environment}}}"#);
        let (facts, node) = testing::run(&PROBE, &[&line]);
        facts.get(node, node::LAUNCH)
    };
    let step = r#"{"SLURM_STEP_NUM_NODES":"3","SLURM_PROCID":"4","SLURM_STEP_NUM_TASKS":"6","SLURM_LOCALID":"0","SLURM_STEP_ID":"0"}"#;
    let launch = said(step);
    assert_eq!(
        launch.known().map(|text| &**text),
        Some("Slurm: rank 4 of 6, 3 nodes")
    );
    assert_eq!(said("{}").known().map(|text| &**text), Some("none"));
    let half = said(r#"{"OMPI_COMM_WORLD_RANK":"4"}"#);
    assert_eq!(half.known(), None);
    let (facts, node) = testing::run(&PROBE, &[]);
    assert_eq!(facts.known(node, node::LAUNCH), None);
}
