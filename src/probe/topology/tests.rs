use super::super::testing;
use super::*;

/// The questions of a machine with two NUMA nodes, with these answers in place of the usual ones.
fn lines(status: &str, environment: &str, more: &[&str]) -> Vec<String> {
    let asked = r#"["NCCL_TOPO_FILE","NCCL_CONF_FILE","CUDA_VISIBLE_DEVICES","LOCAL_WORLD_SIZE","OMPI_COMM_WORLD_LOCAL_SIZE","MPI_LOCALNRANKS","SLURM_STEP_TASKS_PER_NODE"]"#;
    let mut lines = vec![
        format!(r#"{{"q":{{"read":"/proc/self/status"}},"text":"{status}"}}"#),
        r#"{"q":{"list":"/sys/devices/system/node"},"names":["has_memory","node0","node1","node2","online"]}"#.to_owned(),
        r#"{"q":{"read":"/sys/devices/system/node/node0/cpulist"},"text":"0-7,16-23\n"}"#.to_owned(),
        r#"{"q":{"read":"/sys/devices/system/node/node1/cpulist"},"text":"8-15,24-31\n"}"#.to_owned(),
        // The memory of a device, without CPUs.
        r#"{"q":{"read":"/sys/devices/system/node/node2/cpulist"},"text":"\n"}"#.to_owned(),
        r#"{"q":{"read":"/sys/devices/system/node/has_memory"},"text":"0-1\n"}"#.to_owned(),
        format!(r#"{{"q":{{"env":{asked}}},"value":{environment}}}"#),
        r#"{"q":{"list":"/dev"},"names":["null","nvidia-uvm","nvidia0","nvidia1","nvidia10","nvidiactl"]}"#.to_owned(),
    ];
    lines.extend(more.iter().map(|line| (*line).to_owned()));
    lines
}

fn run(status: &str, environment: &str, more: &[&str]) -> (Facts, Id) {
    let lines = lines(status, environment, more);
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    testing::run(&PROBE, &lines)
}

const ALL: &str = "Name:\\tx\\nCpus_allowed_list:\\t0-31\\nMems_allowed_list:\\t0-1\\n";
const NO_CONF: &str = r#"{"q":{"read":"/etc/nccl.conf"},"errno":"ENOENT"}"#;
const NO_DAEMON: &str =
    r#"{"q":{"read":"/var/run/nvidia-topologyd/virtualTopology.xml"},"errno":"ENOENT"}"#;

fn list(facts: &Facts, node: Id, key: crate::fact::Key<Texts>) -> Option<String> {
    facts.known(node, key).map(|names| names.join(" "))
}

#[test]
fn a_process_that_may_run_everywhere() {
    let (facts, node) = run(ALL, "{}", &[NO_CONF, NO_DAEMON]);
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
    assert_eq!(
        facts.known(node, node::TOPO_FILE_STATE),
        Some(TopoFile::None)
    );
    assert_eq!(facts.known(node, node::TOPO_FILE).as_deref(), Some("none"));
}

#[test]
fn a_process_bound_to_one_socket() {
    let status = "Cpus_allowed_list:\\t8-11\\nMems_allowed_list:\\t1\\n";
    let environment = r#"{"CUDA_VISIBLE_DEVICES":"4,5","SLURM_STEP_TASKS_PER_NODE":"4(x2)","LOCAL_WORLD_SIZE":"nonsense"}"#;
    let (facts, node) = run(status, environment, &[NO_CONF, NO_DAEMON]);
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
    let (facts, node) = run("Cpus_allowed_list:\\tall\\n", "{}", &[NO_CONF, NO_DAEMON]);
    assert_eq!(list(&facts, node, node::CPU_NODES_FORBIDDEN), None);
    assert_eq!(list(&facts, node, node::MEMORY_NODES_FORBIDDEN), None);
    let (facts, node) = testing::run(&PROBE, &[]);
    assert_eq!(facts.known(node, node::TOPO_FILE_STATE), None);
    assert_eq!(facts.known(node, node::LAUNCHED_TASKS), None);
    assert_eq!(facts.known(node, node::GPUS_VISIBLE), None);
    // Whether NVIDIA's daemon wrote a file is open: so is whether NCCL has one.
    let (facts, node) = run(ALL, "{}", &[NO_CONF]);
    assert_eq!(facts.known(node, node::TOPO_FILE_STATE), None);
    assert_eq!(facts.known(node, node::TOPO_FILE), None);
}

#[test]
fn where_nccl_takes_its_topology_from() {
    let good = r#""text":"<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:19:00.0\" class=\"0x030200\"/></cpu></system>\n""#;
    let named = r#"{"NCCL_TOPO_FILE":"/a.xml"}"#;
    let from_conf = r#"{"q":{"read":"/etc/nccl.conf"},"text":"NCCL_TOPO_FILE=/b.xml\nNCCL_TOPO_FILE=/c.xml\n"}"#;
    let own = r#"{"NCCL_CONF_FILE":"/own.conf"}"#;
    let own_conf =
        r#"{"q":{"read":"/own.conf"},"text":"NCCL_DEBUG=INFO\nNCCL_TOPO_FILE=/d.xml\n"}"#;
    let read = |path: &str, answer: &str| format!(r#"{{"q":{{"read":"{path}"}},{answer}}}"#);
    for (environment, more, file, state) in [
        (named, vec![read("/a.xml", good)], "/a.xml", TopoFile::Read),
        (
            named,
            vec![read("/a.xml", r#""errno":"ENOENT""#)],
            "/a.xml",
            TopoFile::Absent,
        ),
        (
            named,
            vec![read("/a.xml", r#""errno":"EACCES""#)],
            "/a.xml",
            TopoFile::Denied,
        ),
        (
            named,
            vec![read("/a.xml", r#""text":"<system>""#)],
            "/a.xml",
            TopoFile::Invalid,
        ),
        (
            "{}",
            vec![from_conf.to_owned(), read("/b.xml", good)],
            "/b.xml",
            TopoFile::Read,
        ),
        (
            own,
            vec![own_conf.to_owned(), read("/d.xml", good)],
            "/d.xml",
            TopoFile::Read,
        ),
        (
            own,
            vec![
                read("/own.conf", r#""errno":"ENOENT""#),
                from_conf.to_owned(),
                read("/b.xml", good),
            ],
            "/b.xml",
            TopoFile::Read,
        ),
        (
            "{}",
            vec![NO_CONF.to_owned(), read(VIRTUAL_TOPOLOGY, good)],
            VIRTUAL_TOPOLOGY,
            TopoFile::Read,
        ),
    ] {
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        let (facts, node) = run(ALL, environment, &more);
        assert_eq!(facts.known(node, node::TOPO_FILE).as_deref(), Some(file));
        assert_eq!(
            facts.known(node, node::TOPO_FILE_STATE),
            Some(state),
            "{file}"
        );
        let names = list(&facts, node, node::TOPO_FILE_NAMES);
        let expected = if state == TopoFile::Read {
            "0000:19:00.0"
        } else {
            ""
        };
        assert_eq!(names.as_deref(), Some(expected));
    }
    // A file that is there and cannot be read for another reason is neither.
    let hung = read("/a.xml", r#""refused":"timeout""#);
    let (facts, node) = run(ALL, named, &[&hung]);
    assert_eq!(
        facts.known(node, node::TOPO_FILE).as_deref(),
        Some("/a.xml")
    );
    assert_eq!(facts.known(node, node::TOPO_FILE_STATE), None);
}
