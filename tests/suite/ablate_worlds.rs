//! `rdma-doctor ablate` through worlds of the stand-ins (`tests/standin/machines/nccl-*.toml`): each has one thing that is wrong, or nothing, and the
//! verdict is that and no other. The real binary, its ranks and NCCL's log; no GPU is needed, and no number here was measured on hardware.

use crate::stage::Stage;
use serde_json::Value;

/// What an ablation says.
struct Verdict {
    value: Value,
    status: i32,
}

impl Verdict {
    /// The checks of the causes, the headline's first, each with what it explains.
    fn causes(&self) -> Vec<&str> {
        ids(&self.value["report"]["causes"])
    }

    fn notes(&self) -> Vec<&str> {
        ids(&self.value["report"]["notes"])
    }

    /// The sentence of a cause or note.
    fn sentence(&self, check: &str) -> &str {
        let kinds = ["causes", "notes"].map(|kind| self.value["report"][kind].as_array().unwrap());
        let mut all = kinds.into_iter().flatten();
        all.find(|finding| finding["check"] == check)
            .and_then(|finding| finding["sentence"].as_str())
            .unwrap_or_else(|| panic!("no {check}: {:?} {:?}", self.causes(), self.notes()))
    }
}

fn ids(findings: &Value) -> Vec<&str> {
    let findings = findings.as_array().unwrap().iter();
    findings.map(|one| one["check"].as_str().unwrap()).collect()
}

/// Ablates a world with four ranks; `None` where there can be no stage.
fn ablate(world: &str, args: &[&str]) -> Option<Verdict> {
    let stage = Stage::new(&format!("nccl-{world}.toml"))?
        .library("standin_cuda", "libcuda.so.1")
        .library("standin_nvidia_ml", "libnvidia-ml.so.1")
        .library("standin_nccl", "libnccl.so.2");
    let all = ["ablate", "--ranks", "4", "--format", "json"];
    let size = match args.contains(&"--size") {
        true => &[][..],
        false => &["--size", "64K"],
    };
    let out = stage.run(&[&all[..], size, args].concat());
    let value = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("{world}: {e}: {}", String::from_utf8_lossy(&out.stderr)));
    Some(Verdict {
        value,
        status: out.status.code().unwrap(),
    })
}

/// One start of each arm. What the stand-ins say does not vary, unless a world is made so.
const ONCE: [&str; 4] = ["--rounds", "1", "--time-budget", "600"];
const TWICE: [&str; 4] = ["--rounds", "2", "--time-budget", "600"];

/// The verdict of a world is this cause; others are there only where they follow from it.
fn verdict(world: &str, args: &[&str], cause: &str, others: &[&str]) -> Option<Verdict> {
    let verdict = ablate(world, args)?;
    let causes = verdict.causes();
    assert_eq!(causes.first(), Some(&cause), "{world}: {causes:?}");
    let unexpected: Vec<_> = causes[1..]
        .iter()
        .filter(|one| !others.contains(one))
        .collect();
    assert!(unexpected.is_empty(), "{world}: {unexpected:?}");
    assert_ne!(verdict.status, 0, "{world}");
    Some(verdict)
}

#[test]
fn nodes_that_are_well_have_no_cause() {
    let Some(well) = ablate("nvlink", &TWICE) else {
        return;
    };
    assert_eq!(well.causes(), [""; 0]);
    assert_eq!(well.status, 0, "{}", well.value["report"]["headline"]);
    assert!(well.sentence("ablation/p2p-off-costs").contains("98 %"));
    // Nothing crosses the network of one node, unless it is forced to.
    assert!(!well.notes().contains(&"ablation/ib-off-costs"));
    let well = ablate("two-nodes", &TWICE).unwrap();
    assert_eq!(well.causes(), [""; 0]);
    assert_eq!(well.status, 0);
    assert!(well.sentence("ablation/ib-off-costs").contains("4 of 4"));
    let args = [&ONCE[..], &["--only", "--with", "nvls"]].concat();
    let well = ablate("nvls", &args).unwrap();
    assert_eq!(well.causes(), [""; 0]);
}

#[test]
fn p2p_that_is_missing() {
    let follows = ["ablation/shm-off-costs"];
    let Some(none) = verdict("no-p2p", &ONCE, "ablation/p2p-not-in-use", &follows) else {
        return;
    };
    assert!(
        none.sentence("ablation/p2p-not-in-use")
            .contains("4 pairs SHM")
    );
    verdict("some-pairs", &ONCE, "ablation/shm-off-costs", &[]);
}

#[test]
fn rdma_that_is_not_in_use_or_broken_or_not_the_bound() {
    if verdict("socket", &ONCE, "ablation/rdma-never-in-use", &[]).is_none() {
        return;
    }
    verdict("ib-broken", &ONCE, "ablation/ib-off-faster", &[]);
    let elsewhere = ablate("not-network-bound", &ONCE).unwrap();
    assert_eq!(elsewhere.causes(), [""; 0]);
    elsewhere.sentence("ablation/not-bound-by-network");
    let args = [&ONCE[..], &["--only", "--with", "gdr"]].concat();
    verdict("gdr-acs", &args, "ablation/gdr-off-faster", &[]);
}

#[test]
fn runs_that_fail_hang_or_are_wrong_name_what_cures_them() {
    let args = [&ONCE[..], &["--deadline", "20"]].concat();
    let open = ["ablation/settles-nothing"];
    if verdict("small-shm", &args, "ablation/change-cures", &open).is_none() {
        return;
    }
    let p2p = ["--only", "--run", "NCCL_P2P_DISABLE=1", "--deadline", "20"];
    let p2p = [&ONCE[..], &p2p].concat();
    verdict("wrong", &p2p, "ablation/change-cures", &[]);
    // On a machine that is busy beyond measure the arm that would end well does not end in time either.
    let hangs = ablate("hangs", &p2p).unwrap();
    let named = ["ablation/change-cures", "bench/rank-hung"];
    assert!(hangs.causes().iter().all(|one| named.contains(one)));
    assert_eq!((hangs.causes().len(), hangs.status), (1, 2));
}

#[test]
fn one_gpu_that_is_slow() {
    let args = [&ONCE[..], &["--only", "--with", "cross-nic"]].concat();
    let large = [&args[..], &["--size", "16M"]].concat();
    let Some(slow) = verdict("slow-gpu", &large, "bench/rank-slower", &[]) else {
        return;
    };
    let said = slow.sentence("bench/rank-slower");
    assert!(said.contains("rank 2") && said.contains("31 %"), "{said}");
    // In a short operation who begins first waits for the others, and only looks slow.
    let small = ablate("slow-gpu", &args).unwrap();
    assert_eq!(small.causes(), [""; 0]);
    assert!(!small.notes().contains(&"bench/rank-slower"));
}

#[test]
fn rails_that_are_slow_to_change_and_an_algorithm_that_nccl_does_not_choose() {
    let rails = [&ONCE[..], &["--only", "--with", "cross-nic"]].concat();
    let Some(rails) = verdict("cross-nic", &rails, "ablation/change-faster", &[]) else {
        return;
    };
    let said = rails.value["report"]["headline"].as_str().unwrap();
    assert!(
        said.starts_with("NCCL_CROSS_NIC=0 makes it 35 % faster"),
        "{said}"
    );
    let algorithm = [&ONCE[..], &["--only", "--with", "algo"]].concat();
    let algorithm = ablate("algorithm", &algorithm).unwrap();
    assert_eq!(algorithm.causes(), [""; 0]);
    let said = algorithm.value["report"]["headline"].as_str().unwrap();
    assert!(
        said.starts_with("NCCL_ALGO=Tree makes it 28 % faster"),
        "{said}"
    );
}

#[test]
fn a_variable_that_takes_nothing_away_is_no_ablation() {
    for world in ["knob-ignored", "knob-unread"] {
        let not = verdict(world, &ONCE, "ablation/variable-not-honoured", &[]);
        let Some(not) = not else { return };
        // And nothing is drawn from it.
        assert!(!not.notes().contains(&"ablation/not-bound-by-network"));
    }
}

#[test]
fn a_baseline_that_is_noisy_or_drifts_gives_no_confident_verdict() {
    let args = ["--rounds", "3", "--time-budget", "600", "--only", "--with"];
    let args = [&args[..], &["cross-nic"]].concat();
    let Some(drifts) = verdict("drifts", &args, "ablation/unsteady", &[]) else {
        return;
    };
    assert!(drifts.notes().is_empty(), "{:?}", drifts.notes());
    // Noise may look like a drift; it is one of both, and nothing is drawn from the arms.
    let noisy = ablate("noisy", &args).unwrap();
    let causes = noisy.causes();
    assert!(matches!(causes[..], ["ablation/unsteady"]), "{causes:?}");
}
