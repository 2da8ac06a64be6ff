//! Jobs that run on several nodes: each node has its own processes and its own name, and is reached by a command in place of ssh. The
//! sentence names the rank and its node; a job that works is left alone.
//!
//! Needs root, `unshare` and `nsenter`; elsewhere the tests are skipped and say so.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::namespaces::shell;
use crate::place::{Scratch, doctor, unique};
use crate::process::{wait_for_file, wait_until};
use crate::running_jobs::Said;
use crate::stalls;

/// How many ranks each node has.
pub(crate) const EACH: usize = 2;
/// How many nodes.
const NODES: usize = 3;

/// The program of a job's ranks.
#[derive(Clone, Copy)]
pub(crate) struct Program {
    /// The interpreter.
    pub(crate) python: &'static str,
    /// The script, below `tests/suite/running_jobs`.
    pub(crate) script: &'static str,
}

const RING: Program = Program {
    python: "python3",
    script: "rank.py",
};

/// A program, and what rank 3 does in it.
#[derive(Clone, Copy)]
struct Deed<'d> {
    program: Program,
    deed: &'d str,
    /// Where the dumps lie that the flight recorders of the ranks write when they are asked.
    dumps: Option<&'d Path>,
}

/// Three nodes with two ranks each; all ends with it.
pub(crate) struct Nodes {
    pub(crate) folder: Scratch,
    all: Vec<Child>,
}

impl Nodes {
    /// `None` where no namespaces can be made. `deed` is what rank 3 does after some steps.
    fn start(deed: &str) -> Option<Self> {
        Self::start_program(RING, deed)
    }

    /// The same of another program.
    pub(crate) fn start_program(program: Program, deed: &str) -> Option<Self> {
        Self::start_deed(Deed {
            program,
            deed,
            dumps: None,
        })
    }

    fn start_deed(does: Deed<'_>) -> Option<Self> {
        let (can, why) = shell("unshare --pid --fork --uts --mount-proc true");
        if !can {
            let _ = writeln!(std::io::stderr(), "skipped: no namespaces: {why}");
            return None;
        }
        let folder = Scratch::new("nodes");
        let reach = folder.join("reach");
        let script = format!(
            "#!/bin/sh\npid=$(cat {0}/init.\"$1\") && exec nsenter --target \"$pid\" --pid --mount --uts sh -c \"$2\"\n",
            folder.display()
        );
        std::fs::write(&reach, script).unwrap();
        std::fs::set_permissions(&reach, std::fs::Permissions::from_mode(0o755)).unwrap();
        let run = unique("rd-nodes");
        let start = |node: usize| start_node(&folder, node, does, &run);
        let all = (1..=NODES).map(start).collect();
        Some(Nodes { folder, all })
    }

    /// Waits until all ranks have made steps.
    pub(crate) fn works(&self) {
        for rank in 0..EACH * NODES {
            wait_for_file(&self.folder.join(format!("step.{rank}")));
        }
    }

    /// The number of a rank's process on its node.
    pub(crate) fn pid(&self, rank: usize) -> String {
        let path = self.folder.join(format!("pid.{rank}"));
        std::fs::read_to_string(path).unwrap().trim().to_owned()
    }

    pub(crate) fn on(&self, node: usize, command: &str) -> bool {
        let mut reach = Command::new(self.folder.join("reach"));
        let status = reach.arg(format!("n{node}")).arg(command).status();
        status.unwrap().success()
    }

    /// Waits until the processes of these ranks do not run.
    pub(crate) fn wait(&self, ranks: &[usize]) {
        for rank in ranks {
            let pid = self.pid(*rank);
            let look = format!(
                "a=$(cat /proc/{pid}/schedstat); sleep 0.2; [ \"$a\" = \"$(cat /proc/{pid}/schedstat)\" ]"
            );
            wait_until(&format!("rank {rank} waits"), || {
                self.on(rank / EACH + 1, &look)
            });
        }
    }

    /// What is said of the job on all nodes, and of what was kept of it.
    pub(crate) fn said(&self, hosts: &str) -> Said {
        self.said_with(hosts, &[])
    }

    /// The same with further options.
    pub(crate) fn said_with(&self, hosts: &str, options: &[&str]) -> Said {
        let kept = self.folder.join("kept");
        std::fs::create_dir_all(&kept).unwrap();
        let reach = self.folder.join("reach");
        let live = Said::run(|command| {
            let command = command.args(["job", "--interval", "1", "--no-redact"]);
            let command = command.args(options).args(["--hosts", hosts]);
            let command = command.arg("--ssh").arg(&reach);
            let command = command.arg("--remote").arg(doctor());
            command.arg("--record-dir").arg(&kept)
        });
        let again = Said::run(|command| command.arg("job").arg(&kept));
        assert_eq!(live.headline, again.headline);
        assert_eq!((live.exit, &live.causes), (again.exit, &again.causes));
        live
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for node in &mut self.all {
            // The first process of a namespace takes all others with it.
            let _ = node.kill();
            let _ = node.wait();
        }
    }
}

fn start_node(folder: &Path, node: usize, does: Deed<'_>, run: &str) -> Child {
    let Deed { program, deed, .. } = does;
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/running_jobs");
    let rank = scripts.join(program.script);
    let (folder, rank, python) = (folder.display(), rank.display(), program.python);
    let script = format!(
        "hostname n{node}; for local in 0 1; do
             export LOCAL_RANK=$local RANK=$((({node} - 1) * {EACH} + local))
             deed=; if [ $RANK = 3 ]; then deed={deed}; fi
             {python} {rank} {folder} \"$deed\" 7 &
             echo $! > {folder}/pid.$RANK
         done
         unset RANK LOCAL_RANK
         exec sleep 1000"
    );
    let mut command = Command::new("unshare");
    if let Some(dumps) = does.dumps {
        let prefix = Path::new(&folder.to_string()).join("trace_");
        command
            .env("DUMPS", dumps)
            .env("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", &prefix)
            .env("TORCH_FR_DUMP_TEMP_FILE", &prefix);
    }
    let child = command
        .args(["--pid", "--fork", "--kill-child", "--uts", "--mount-proc"])
        .args(["sh", "-c", &script])
        .env("WORLD_SIZE", (EACH * NODES).to_string())
        .env("LOCAL_WORLD_SIZE", EACH.to_string())
        .env("GROUP_WORLD_SIZE", NODES.to_string())
        .env("GROUP_RANK", (node - 1).to_string())
        .env("MASTER_ADDR", "127.0.0.1")
        .env("MASTER_PORT", "29500")
        .env("TORCHELASTIC_RUN_ID", run)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    // Its only child is the first process of the namespace.
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let init = Path::new(&folder.to_string()).join(format!("init.n{node}"));
    wait_until("the namespace has a process", || {
        let first = std::fs::read_to_string(&children).unwrap_or_default();
        let first = first.trim();
        !first.is_empty() && std::fs::write(&init, first).is_ok()
    });
    child
}

#[test]
fn a_job_that_works_on_three_nodes_is_left_alone() {
    let Some(nodes) = Nodes::start("") else {
        return;
    };
    nodes.works();
    let said = nodes.said("n[1-3]");
    assert_eq!(said.exit, 0, "{}", said.all);
    assert!(
        said.headline.contains("working: 6 ranks"),
        "{}",
        said.headline
    );
}

#[test]
fn a_rank_that_sleeps_is_named_with_its_node() {
    let Some(nodes) = Nodes::start("sleep") else {
        return;
    };
    wait_for_file(&nodes.folder.join("at.3"));
    nodes.wait(&[0, 1, 2, 3, 4, 5]);
    let expected = format!(
        "rank 3 (n2, pid {}) sleeps (nanosleep); the other 5 wait in recv and did not move",
        nodes.pid(3)
    );
    nodes.said("n[1-3],n2").leads(1, "ranks/differs", &expected);
}

#[test]
fn a_rank_without_a_process_is_named_with_its_node() {
    let Some(nodes) = Nodes::start("") else {
        return;
    };
    nodes.works();
    assert!(nodes.on(3, &format!("kill -9 {}", nodes.pid(5))));
    nodes.wait(&[0, 1, 2, 3, 4]);
    let expected =
        "without a process: rank 5 (n3); rank 0, rank 1, rank 2, rank 3 and rank 4 have one";
    nodes.said("n[1-3]").leads(2, "ranks/missing", expected);
}

#[test]
fn a_node_whose_ranks_are_all_gone_is_named() {
    let Some(nodes) = Nodes::start("") else {
        return;
    };
    nodes.works();
    assert!(nodes.on(3, &format!("kill -9 {} {}", nodes.pid(4), nodes.pid(5))));
    nodes.wait(&[0, 1, 2, 3]);
    let expected = "without a process: rank 4 and rank 5 (n3 has none at all); rank 0, rank 1, rank 2 and rank 3 have one";
    nodes.said("n[1-3]").leads(2, "ranks/missing", expected);
}

#[test]
fn a_node_that_is_not_reached_is_named() {
    let Some(mut nodes) = Nodes::start("") else {
        return;
    };
    nodes.works();
    nodes.all[2].kill().unwrap();
    nodes.all[2].wait().unwrap();
    nodes.wait(&[0, 1, 2, 3]);
    let said = nodes.said("n[1-3]");
    let (check, sentence) = &said.causes[0];
    assert_eq!(check, "ranks/node-silent", "{}", said.all);
    assert!(sentence.starts_with("not looked at: n3: "), "{sentence}");
    assert_ne!(said.exit, 0, "{}", said.all);
}

#[test]
fn nodes_that_were_left_out_are_said() {
    let Some(nodes) = Nodes::start("") else {
        return;
    };
    nodes.works();
    let said = nodes.said("n[1-2]");
    assert_eq!(said.exit, 3, "{}", said.all);
    assert!(
        said.all
            .contains("the node of rank 4 and rank 5 was not looked at"),
        "{}",
        said.all
    );
}

#[test]
fn the_flight_recorders_of_all_nodes_are_read_together() {
    let dumps = Scratch::new("dumps");
    stalls::without_rank_2((EACH * NODES) as u32).write(&dumps);
    let nodes = Nodes::start_deed(Deed {
        program: RING,
        deed: "sleep",
        dumps: Some(&dumps),
    });
    let Some(nodes) = nodes else {
        return;
    };
    wait_for_file(&nodes.folder.join("at.3"));
    nodes.wait(&[0, 1, 2, 3, 4, 5]);
    let said = nodes.said_with("n[1-3]", &["--dump"]);
    let of_dumps: Vec<&String> = said
        .causes
        .iter()
        .filter(|(check, _)| check.starts_with("collectives/"))
        .map(|(_, sentence)| sentence)
        .collect();
    let [sentence] = of_dumps.as_slice() else {
        panic!("{}", said.all)
    };
    assert!(sentence.contains("rank 2 did not join"), "{sentence}");
}
