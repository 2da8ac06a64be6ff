//! The place at which a job's processes are to meet, asked of this machine: who listens at the port, and which numbers the environment gives.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::place::doctor;

/// The first causes that `check` names in this environment, of the settings and of NCCL's variables.
fn causes(variables: &[(&str, &str)]) -> Vec<String> {
    let mut command = Command::new(doctor());
    command.args([
        "check",
        "--only",
        "setting/*",
        "--only",
        "nccl/*",
        "--format",
        "json",
    ]);
    for name in [
        "RANK",
        "LOCAL_RANK",
        "NODE_RANK",
        "WORLD_SIZE",
        "NNODES",
        "SLURM_NNODES",
    ] {
        command.env_remove(name);
    }
    let done = command.envs(variables.iter().copied()).output().unwrap();
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    let causes = report["causes"].as_array().unwrap();
    let sentences = causes
        .iter()
        .map(|cause| cause["sentence"].as_str().unwrap().to_owned());
    sentences.collect()
}

/// A process of another session that listens at a port of its choice.
struct Stranger(Child, u16);

impl Stranger {
    fn start() -> Self {
        let listen = "import socket, sys\n\
                      s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()\n\
                      print(s.getsockname()[1], flush=True)\n\
                      sys.stdin.read()";
        let mut child = Command::new("setsid")
            .args(["python3", "-c", listen])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let said = child.stdout.take().unwrap();
        BufReader::new(said).read_line(&mut line).unwrap();
        Stranger(child, line.trim().parse().unwrap())
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[test]
fn a_port_that_a_stranger_holds_is_named_with_its_process() {
    let stranger = Stranger::start();
    let port = stranger.1.to_string();
    let here = [("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", &port)];
    let said = causes(&here);
    let expected = format!("port {port} (MASTER_PORT) is held by python3 (pid ");
    assert!(
        said.iter().any(|one| one.starts_with(&expected)),
        "{said:?}"
    );
    // Another node's rank 0 listens there, on its own node.
    let there = [("MASTER_ADDR", "192.0.2.9"), ("MASTER_PORT", &port)];
    let said = causes(&there);
    assert!(
        !said.iter().any(|one| one.starts_with(&expected)),
        "{said:?}"
    );
}

#[test]
fn the_store_of_the_job_itself_holds_its_port_by_right() {
    // This process starts the doctor, as torchrun's agent starts the ranks.
    let store = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = store.local_addr().unwrap().port().to_string();
    let said = causes(&[("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", &port)]);
    assert!(said.iter().all(|one| !one.contains(&port)), "{said:?}");
}

#[test]
fn a_number_beyond_its_count_is_named() {
    let wrong = [
        [("RANK", "4"), ("WORLD_SIZE", "4")],
        [("NODE_RANK", "2"), ("NNODES", "2")],
        [("PET_NODE_RANK", "4"), ("PET_NNODES", "2:4")],
        [("RANK", "one"), ("WORLD_SIZE", "2")],
    ];
    for pair in wrong {
        let [(name, value), (count_name, _)] = pair;
        let said = causes(&pair);
        let begin = format!("{name} is {value}, and {count_name} is ");
        assert!(said.iter().any(|one| one.starts_with(&begin)), "{said:?}");
    }
    for pair in [
        [("RANK", "3"), ("WORLD_SIZE", "4")],
        [("PET_NODE_RANK", "3"), ("PET_NNODES", "2:4")],
    ] {
        let said = causes(&pair);
        assert!(said.iter().all(|one| !one.contains("RANK")), "{said:?}");
    }
}

#[test]
fn an_identity_of_nccl_without_a_port_is_named() {
    for (value, is_wrong) in [
        ("192.0.2.1", true),
        ("192.0.2.1:99999", true),
        ("fd00::1", true),
        ("192.0.2.1:29600", false),
        ("[fd00::1]:29600", false),
    ] {
        let said = causes(&[("NCCL_COMM_ID", value)]);
        let says = said.iter().any(|one| one.contains("NCCL wants HOST:PORT"));
        assert_eq!(says, is_wrong, "{value}: {said:?}");
    }
}
