//! Jobs that hang, as their ranks' dumps and RAS tell of them: which rank is named, in which collective, and that a job that works is left alone.

mod ranks;

use std::path::Path;

use crate::place::Scratch;
use crate::process::run_doctor;
use ranks::{ALL_REDUCE, Call, Job};
use serde_json::Value;

/// What the doctor says.
struct Said {
    exit: i32,
    headline: String,
    /// The checks that lead, each with its sentence; `-once` behind one that is a warning because nothing proves
    /// that the job stands still.
    causes: Vec<(String, String)>,
    text: String,
}

impl Said {
    fn of(command: &str, path: &Path) -> Self {
        let path = path.to_str().unwrap();
        let json = run_doctor(&[command, path, "--json"]);
        let text = run_doctor(&[command, path]);
        let report: Value = serde_json::from_slice(&json.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&json.stderr)));
        let said = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let causes = report["causes"].as_array().unwrap().iter();
        Said {
            exit: json.status.code().unwrap(),
            headline: said(&report["headline"]),
            causes: causes
                .map(|one| {
                    let sentence = said(&one["sentence"]);
                    let is_once = sentence.contains("recorded once");
                    assert_eq!(is_once, is_once && one["severity"] == "warning");
                    let once = if is_once { "-once" } else { "" };
                    (said(&one["check"]) + once, sentence)
                })
                .collect(),
            text: String::from_utf8(text.stdout).unwrap(),
        }
    }

    /// Holds that one cause leads, and what its sentence says.
    fn leads(&self, check: &str, words: &[&str]) {
        let leading: Vec<&str> = self
            .causes
            .iter()
            .map(|(check, _)| check.as_str())
            .collect();
        assert_eq!(leading, [check], "{}", self.text);
        for word in words {
            assert!(
                self.causes[0].1.contains(word),
                "{word:?} is not in {}",
                self.text
            );
        }
    }

    fn is_quiet(&self) {
        assert!(self.causes.is_empty(), "{}", self.text);
        assert_eq!(self.exit, 0, "{}", self.text);
    }
}

/// Dumps of a job of which rank 2 did not join the collective that the others wait in.
pub(crate) fn without_rank_2(size: u32) -> Job {
    let mut job = Job::new(size);
    for other in (0..size).filter(|other| *other != 2) {
        job.waits(other, 0, 1023, ALL_REDUCE);
    }
    job
}

/// What is said of a job's dumps.
fn of(job: &Job) -> Said {
    let folder = Scratch::new("stalls");
    job.write(&folder);
    Said::of("job", &folder)
}

/// A job in which all but this rank wait in the next all-reduce.
fn without(rank: u32) -> Job {
    let mut job = Job::new(8);
    for other in (0..8).filter(|other| *other != rank) {
        job.waits(
            other,
            0,
            1023,
            Call {
                line: 88,
                ..ALL_REDUCE
            },
        );
    }
    job
}

#[test]
fn a_rank_that_did_not_join_is_named_with_what_it_did_last() {
    let said = of(&without(5));
    said.leads(
        "collectives/not-joined-once",
        &[
            "rank 5 did not join all-reduce #1023 of default_pg",
            "with 7 ranks waiting in it",
            "its last call was all-reduce #1022 of default_pg",
            "train.py:88 (train_step)",
            "recorded once",
        ],
    );
    assert_eq!(said.exit, 1);
}

#[test]
fn check_and_log_say_the_same_and_so_does_each_file_by_itself() {
    let folder = Scratch::new("stalls-door");
    without(5).write(&folder);
    for command in ["check", "log"] {
        Said::of(command, &folder).leads("collectives/not-joined-once", &["rank 5 did not join"]);
    }
    let files: Vec<String> = (0..8)
        .map(|rank| {
            folder
                .join(format!("nccl_trace_rank_{rank}"))
                .to_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    for command in ["check", "log", "job"] {
        let args: Vec<&str> = [command]
            .into_iter()
            .chain(files.iter().map(String::as_str))
            .collect();
        let out = run_doctor(&args);
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(
            text.starts_with("WARNING rank 5 did not join all-reduce #1023"),
            "{text}"
        );
    }
}

#[test]
fn a_job_whose_ranks_completed_all_is_left_alone() {
    let said = of(&Job::new(8));
    said.is_quiet();
    assert!(
        said.headline.contains("no rank waits in a collective"),
        "{}",
        said.headline
    );
}

#[test]
fn a_recorder_that_is_empty_is_no_excuse() {
    let mut job = without(3);
    job.empty(3);
    of(&job).leads(
        "collectives/not-joined-once",
        &["rank 3 did not join", "its recorder is empty"],
    );
}

#[test]
fn a_call_older_than_its_timeout_proves_that_it_hangs() {
    let mut job = Job::new(8);
    for rank in 0..7 {
        job.waits(rank, 0, 1023, ALL_REDUCE);
    }
    // Another rank went on to make calls for 11 minutes.
    let side = job.group("1", "side", [0, 1]);
    job.waits(
        0,
        side,
        4,
        Call {
            at: 660,
            ..ALL_REDUCE
        },
    );
    let said = of(&job);
    said.leads("collectives/not-joined", &["rank 7 did not join"]);
    assert_eq!(said.exit, 2);
}

#[test]
fn a_watchdogs_line_proves_it_and_is_folded_and_the_log_names_the_host() {
    let folder = Scratch::new("stalls-watchdog");
    without(5).write(&folder);
    let mut log = String::new();
    for rank in 0..8 {
        let host = if rank < 4 { "n1" } else { "n2" };
        let head = format!(
            "{host}:{}:{} [{}] NCCL INFO",
            100 + rank,
            100 + rank,
            rank % 4
        );
        log += &format!(
            "{head} comm 0x55{rank} rank {rank} nranks 8 cudaDev {0} nvmlDev {0} busId 1{0}000 commId 0x9f - Init COMPLETE\n",
            rank % 4
        );
    }
    for rank in (0..8).filter(|rank| *rank != 5) {
        log += &format!(
            "[rank{rank}]:[E1121 10:44:11.104313226 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1023, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
        );
    }
    std::fs::write(folder.join("job.log"), log).unwrap();
    let said = Said::of("job", &folder);
    said.leads(
        "collectives/not-joined",
        &["rank 5 (n2) did not join all-reduce #1023 of default_pg"],
    );
    assert_eq!(said.exit, 2);
}

#[test]
fn two_ranks_that_did_not_join_are_one_cause() {
    let mut job = Job::new(8);
    for rank in [0, 1, 3, 4, 6, 7] {
        job.waits(rank, 0, 1023, ALL_REDUCE);
    }
    of(&job).leads(
        "collectives/not-joined-once",
        &["ranks 2 and 5 did not join", "6 ranks wait"],
    );
}

#[test]
fn who_waits_elsewhere_is_a_victim_and_the_chain_ends_at_the_cause() {
    let mut job = Job::new(8);
    let pair = job.group("1", "TENSOR", [4, 5]);
    // Rank 4 waits for rank 5 in their pair, so that all others wait for both.
    job.waits(
        4,
        pair,
        7,
        Call {
            operation: "nccl:_all_gather_base",
            ..ALL_REDUCE
        },
    );
    for rank in [0, 1, 2, 3, 6, 7] {
        job.waits(rank, 0, 1023, ALL_REDUCE);
    }
    let said = of(&job);
    assert!(
        said.causes
            .iter()
            .all(|(_, said)| said.starts_with("rank 5 did not join")),
        "{}",
        said.text
    );
    assert!(!said.text.contains("rank 4 did not"), "{}", said.text);
    assert!(said.text.contains("7 in all"), "{}", said.text);
}

#[test]
fn a_device_that_does_not_complete_what_others_did_is_not_the_hosts_fault() {
    let mut job = Job::new(4);
    for rank in [0, 1, 3] {
        job.done(rank, 0, 1023, ALL_REDUCE);
    }
    job.waits(2, 0, 1023, ALL_REDUCE);
    of(&job).leads(
        "collectives/not-completed-once",
        &["rank 2 launched all-reduce #1023 of default_pg and did not complete it"],
    );
}

#[test]
fn what_all_launched_and_none_completed_accuses_no_rank() {
    let mut job = Job::new(4);
    for rank in 0..4 {
        job.waits(rank, 0, 1023, ALL_REDUCE);
        job.waits(rank, 0, 1024, ALL_REDUCE);
    }
    of(&job).leads(
        "collectives/launched-by-all-once",
        &["all of 4 ranks launched all-reduce #1023 of default_pg and none completed it"],
    );
}

#[test]
fn one_dump_alone_is_of_the_rank_that_its_name_tells() {
    let mut job = Job::new(4);
    for rank in 0..4 {
        job.waits(rank, 0, 1023, ALL_REDUCE);
    }
    let folder = Scratch::new("dump");
    job.write(&folder);
    let dump = folder.join("nccl_trace_rank_2");
    let said = Said::of("job", &dump);
    said.leads(
        "collectives/no-dump",
        &["no dump of ranks 0, 1 and 3, for which all-reduce #1023 of default_pg waits, with rank 2 in it"],
    );
    // Under a name that tells no rank it is not read, which is said.
    let nameless = folder.join("dump.pickle");
    std::fs::rename(dump, &nameless).unwrap();
    let said = Said::of("job", &nameless);
    let expected = "nothing to examine: 1 dump was not read";
    assert!(said.headline.starts_with(expected), "{}", said.headline);
}

#[test]
fn a_device_that_has_not_begun_what_the_others_have_is_named() {
    for (number, words) in [
        (0, "; the devices have begun it"),
        (
            1,
            "; not begun on the device of rank 3, begun on the others",
        ),
    ] {
        let mut job = Job::new(4);
        for rank in 0..4 {
            let state = if rank + number > 3 {
                "scheduled"
            } else {
                "started"
            };
            job.waits_in(rank, 0, 1023, ALL_REDUCE, state);
        }
        let all = "all of 4 ranks launched all-reduce #1023 of default_pg and none completed it";
        let said = of(&job);
        said.leads("collectives/launched-by-all-once", &[all, words]);
    }
}

/// A job of four, of which rank 2 makes another call than the others.
fn with_another_call(common: Call, other: Call) -> Said {
    let mut job = Job::new(4);
    for rank in 0..4 {
        job.waits(rank, 0, 1023, if rank == 2 { other } else { common });
    }
    of(&job)
}

#[test]
fn sizes_types_and_operations_that_differ_are_named() {
    for (other, word) in [
        (
            Call {
                elements: 512,
                ..ALL_REDUCE
            },
            "rank 2 called all-reduce (512 × BFloat16)",
        ),
        (
            Call {
                of: "Float",
                ..ALL_REDUCE
            },
            "rank 2 called all-reduce (4096 × Float)",
        ),
        (
            Call {
                operation: "nccl:broadcast",
                ..ALL_REDUCE
            },
            "rank 2 called broadcast",
        ),
    ] {
        let said = with_another_call(ALL_REDUCE, other);
        said.leads(
            "collectives/calls-differ",
            &["all-reduce #1023 of default_pg does not match", word],
        );
        assert_eq!(said.exit, 2);
    }
    // What ranks give to an all-to-all differs by right.
    let scattered = Call {
        operation: "nccl:all_to_all",
        ..ALL_REDUCE
    };
    let said = with_another_call(
        scattered,
        Call {
            elements: 77,
            ..scattered
        },
    );
    said.leads("collectives/launched-by-all-once", &["all-to-all #1023"]);
}

#[test]
fn ranks_that_wait_for_each_other_in_two_groups_are_one_cause() {
    let mut job = Job::new(2);
    let other = job.group("1", "other", [0, 1]);
    job.waits(0, 0, 1023, ALL_REDUCE);
    job.waits(1, other, 9, ALL_REDUCE);
    // Only the world is compared by its ranks; the second group has the same.
    of(&job).leads(
        "collectives/order-differs-once",
        &["ranks 0 and 1 wait for each other", "#1023", "#9"],
    );
}

#[test]
fn a_message_names_its_two_ranks_and_pipelines_differ_by_right() {
    let mut job = Job::new(4);
    let pipeline = job.group("1", "PIPELINE", [0, 2]);
    let mut quiet = Job::new(4);
    let same = quiet.group("1", "PIPELINE", [0, 2]);
    quiet.done(
        0,
        same,
        900,
        Call {
            operation: "nccl:send 0->1",
            ..ALL_REDUCE
        },
    );
    quiet.done(
        2,
        same,
        450,
        Call {
            operation: "nccl:recv 1<-0",
            ..ALL_REDUCE
        },
    );
    of(&quiet).is_quiet();
    job.waits(
        2,
        pipeline,
        451,
        Call {
            operation: "nccl:recv 1<-0",
            ..ALL_REDUCE
        },
    );
    of(&job).leads(
        "collectives/not-joined-once",
        &[
            "rank 0 did not join the message from rank 0 to rank 2",
            "rank 2 wait",
        ],
    );
}

#[test]
fn a_dump_that_is_missing_is_missing() {
    let mut job = Job::new(8);
    for rank in 0..7 {
        job.waits(rank, 0, 1023, ALL_REDUCE);
    }
    job.drop_dump(7);
    of(&job).leads(
        "collectives/no-dump",
        &["no dump of rank 7, for which all-reduce #1023"],
    );
    // Nobody waits: it is only not known.
    let mut idle = Job::new(8);
    idle.drop_dump(7);
    let said = of(&idle);
    assert_eq!((said.exit, said.causes.len()), (3, 0), "{}", said.text);
    assert!(
        said.text.contains("dumps of 7 of 8 ranks; missing: 7"),
        "{}",
        said.text
    );
}

#[test]
fn two_dumps_that_are_the_same_prove_it_and_two_that_differ_show_that_it_works() {
    let folder = Scratch::new("stalls-twice");
    without(5).write(&folder.join("first"));
    without(5).write(&folder.join("second"));
    Said::of("job", &folder).leads("collectives/not-joined", &["rank 5 did not join"]);
    let mut later = Job::new(8);
    for rank in 0..8 {
        later.done(rank, 0, 1040, ALL_REDUCE);
    }
    for rank in 0..7 {
        later.waits(rank, 0, 1041, ALL_REDUCE);
    }
    later.write(&folder.join("second"));
    Said::of("job", &folder).is_quiet();
}

#[test]
fn forms_versions_and_names_of_files_make_no_difference() {
    let folder = Scratch::new("stalls-json");
    without(5).write_json(&folder);
    Said::of("job", &folder).leads(
        "collectives/not-joined-once",
        &["rank 5 did not join all-reduce #1023"],
    );
    for version in ["2.2", "2.10"] {
        let mut job = without(5);
        job.version = version;
        of(&job).leads("collectives/not-joined-once", &["rank 5 did not join"]);
    }
    let mut unknown = without(5);
    unknown.version = "3.0";
    let said = of(&unknown);
    assert_eq!(said.exit, 3, "{}", said.text);
    assert!(said.text.contains("version 3.0"), "{}", said.text);
    // Each rank has a group of its own, so that it is known without its file's name.
    let mut alone = without(5);
    for rank in 0..alone.size() {
        alone.group(&format!("{}", 10 + rank), "EXPERT_DATA_PARALLEL", [rank]);
    }
    let nameless = Scratch::new("stalls-nameless");
    alone.write_nameless(&nameless);
    Said::of("job", &nameless).leads("collectives/not-joined-once", &["rank 5 did not join"]);
}

#[test]
fn a_recording_of_the_dumps_says_the_same() {
    let folder = Scratch::new("stalls-recorded");
    without(5).write(&folder.join("dumps"));
    let recorded = folder.join("job.jsonl");
    let (dumps, to) = (folder.join("dumps"), recorded.to_str().unwrap());
    run_doctor(&["job", dumps.to_str().unwrap(), "--record", to]);
    Said::of("check", &recorded).leads(
        "collectives/not-joined-once",
        &["rank 5 did not join all-reduce #1023"],
    );
}

#[test]
fn a_pickle_that_could_build_an_object_is_not_followed() {
    let folder = Scratch::new("stalls-hostile");
    Job::new(2).write(&folder);
    std::fs::write(
        folder.join("nccl_trace_rank_9"),
        b"\x80\x02}cos\nsystem\n(X\x04\0\0\0truetR.",
    )
    .unwrap();
    let said = Said::of("job", &folder);
    assert_eq!(said.exit, 3, "{}", said.text);
    assert!(said.text.contains("the instruction 0x63"), "{}", said.text);
}

const RAS: &str = "NCCL version 2.30.7 compiled with CUDA 12.8\n\nJob summary\n===========\n\n  Nodes    Processes\n\nCommunicators... (0.002s)\n=============\n\nGroup     Comms      Nodes     Ranks     Ranks     Ranks   Status  Errors\n    #  in group   per comm  per node  per comm  in group\n    0         1          2         4         8         8  RUNNING  STATE\n\nErrors\n======\n\nLOST\nWarnings\n========\n\nTOLD\n";

/// What `ncclras` printed, with these errors and warnings.
fn ras(state: &str, lost: &str, told: &str) -> String {
    RAS.replace("STATE", state)
        .replace("LOST", lost)
        .replace("TOLD", told)
}

fn of_ras(texts: &[String]) -> Said {
    let folder = Scratch::new("stalls-ras");
    for (at, text) in texts.iter().enumerate() {
        std::fs::write(folder.join(format!("ras-{at}.txt")), text).unwrap();
    }
    Said::of("job", &folder)
}

fn behind(launched: u64, others: u64) -> String {
    let told = format!(
        "#0-0 (78db921d1c117b4a) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n  7 ranks have launched up to operation {others}\n  Rank 7 has launched up to operation {launched} -- GPU 3 managed by process 1650386 on node node1\n"
    );
    ras("MISMATCH", "", &told)
}

#[test]
fn ras_names_who_is_behind_once_twice_and_not_where_it_moves() {
    let words = [
        "rank 7 (node1) did not launch AllReduce #64",
        "7 ranks did",
        "#60",
        "process 1650386",
    ];
    of_ras(&[behind(60, 64)]).leads("collectives/rank-behind-once", &words);
    of_ras(&[behind(60, 64), behind(60, 64)]).leads("collectives/rank-behind", &words);
    of_ras(&[behind(60, 64), behind(160, 164)]).is_quiet();
    of_ras(&[ras("OK", "", "")]).is_quiet();
}

#[test]
fn ras_names_who_is_gone() {
    let lost = "INCOMPLETE\n  Missing communicator data from 1 job process\n  Process 3487984 on node 172.16.64.213 managing GPU 5\n\n#0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 1 rank\n  The missing rank: 21\n";
    let words = [
        "rank 21 (172.16.64.213) does not answer NCCL's RAS",
        "7 ranks",
        "process 3487984",
    ];
    of_ras(&[ras("INCOMPLETE", lost, "")]).leads("collectives/rank-unresponsive-once", &words);
    let dead = lost.replacen(
        "INCOMPLETE\n  Missing communicator data from 1 job",
        "DEAD\n  1 job",
        1,
    );
    let said = of_ras(&[ras("INCOMPLETE", &dead, "")]);
    said.leads(
        "collectives/rank-dead",
        &["rank 21 (172.16.64.213) is dead"],
    );
    assert_eq!(said.exit, 2);
    // NCCL 2.28.9 leaves a comma out.
    let json = "{\n  \"nccl_version\": \"2.28.9\",\n  \"communicators_count\": 1,\n  \"communicators\": [\n    {\n      \"hash\": \"0xae94423cfbb2ef4a\",\n      \"size\": 2,\n      \"ranks\": [\n        {\n          \"rank\": 0,\n          \"host\": \"n1\",\n          \"pid\": 7,\n          \"collective_counts\": {\n            \"AllReduce\": 12\n          }\n        }\n      ],\n      \"missing_ranks\": [\n        {\n          \"rank\": 1,\n          \"host\": \"n2\",\n          \"pid\": 1524345,\n          \"nvml_dev\": 1\n          \"status\": {\n            \"unresponsive\": true,\n            \"considered_dead\": true\n          }\n        }\n      ]\n    }\n  ]\n}\n";
    for json in [
        json.to_owned(),
        json.replace("1\n          \"status", "1,\n          \"status"),
    ] {
        of_ras(&[json]).leads(
            "collectives/rank-dead",
            &["rank 1 (n2) is dead", "process 1524345"],
        );
    }
}

/// The two runs whose truth is known, where a variable names their folder.
#[test]
fn real_runs_are_told_right() {
    let Ok(folder) = std::env::var("RDMA_DOCTOR_FLIGHT_RECORDER") else {
        return;
    };
    for (run, check, first, second) in [
        (
            "gpu_error_1st",
            "collectives/not-completed-once",
            "rank 12 launched",
            "rank 14 launched",
        ),
        (
            "lock_gil_2nd",
            "collectives/not-joined-once",
            "rank 10 did not join",
            "rank 15 did not join",
        ),
    ] {
        let said = Said::of("job", &Path::new(&folder).join(run));
        said.leads(check, &[first]);
        assert!(said.text.contains(second), "{}", said.text);
    }
}

#[test]
fn a_thousand_ranks_are_judged_soon() {
    let mut job = Job::new(1000);
    for rank in (0..1000).filter(|rank| *rank != 637) {
        job.waits(rank, 0, 1023, ALL_REDUCE);
    }
    let folder = Scratch::new("stalls-thousand");
    job.write(&folder);
    let begun = std::time::Instant::now();
    let out = run_doctor(&["job", folder.to_str().unwrap()]);
    let took = begun.elapsed();
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(
        text.starts_with("WARNING rank 637 did not join all-reduce #1023"),
        "{text}"
    );
    println!("1,000 ranks in {took:?}");
    // The bound of a release build is 2 s; this one is slower, and shares its processors.
    assert!(took.as_secs() < 30, "{took:?}");
}
