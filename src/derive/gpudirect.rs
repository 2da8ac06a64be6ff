//! On which way adapters reach GPU memory, by the rules of the NCCL version found.
//!
//! There are two: a peer memory module, which hands GPU memory to the RDMA core of NVIDIA's stack
//! (or of Ubuntu's kernels), and DMA-BUF, which needs no module beside the driver. Files rule ways
//! out; that DMA-BUF works only CUDA can tell.

use super::Derivation;
use std::sync::Arc;

use crate::fact::kleene::Several;
use crate::fact::node::{DmaBuf, Gpudirect};
use crate::fact::port::PortState;
use crate::fact::{
    Fact, Facts, Gap, Id, Subject, device, gpu, known, limit, module, node, port, variable,
};
use crate::nccl_rules::number::decimal;

/// The peer memory modules: the driver's own, and the one before it, which was built apart.
const MODULES: [&str; 2] = ["nvidia_peermem", "nv_peer_mem"];

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("gpudirect", &["port.intended"], derive);

/// Works out the ways, and whether one is to be expected.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    facts.set(node, node::PEERMEM_MODULES, modules(facts, node));
    facts.set(node, node::PEERMEM_SEEN, seen(facts, node));
    facts.set(node, node::CUDA_DMA_BUF, dma_buf_in_cuda(facts, node));
    facts.set(node, node::DMA_BUF, dma_buf(facts, node));
    facts.set(node, node::GPUDIRECT, way(facts, node));
    facts.set(node, node::GPUDIRECT_WANTED, wanted(facts, node));
    facts.set(node, node::GDRCOPY_WANTED, gdrcopy_wanted(facts, node));
}

fn is_present(facts: &Facts, node: Id, name: &str) -> Fact<bool> {
    match facts.find(Subject::Module, node, name) {
        Some(id) => facts.get(id, module::PRESENT),
        None => Fact::Unknown(Gap::missing(format!("module {name}"))),
    }
}

fn modules(facts: &Facts, node: Id) -> Fact<Arc<[Arc<str>]>> {
    let of = |name: &'static str| is_present(facts, node, name).map(|is| (name, is));
    let each: Several<(&str, bool)> = MODULES.into_iter().map(of).collect();
    let found = each.known().map(|all| {
        let found = all.iter().filter(|(_, is)| *is);
        found.map(|(name, _)| Arc::from(*name)).collect()
    });
    Fact::of(found, "the modules that are loaded")
}

/// A version as three numbers: `2.27.5`, `2.22.3+cuda12.6`.
fn version(text: &str) -> Option<(u64, u64, u64)> {
    let mut parts = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let mut next = || parts.next()?.ok();
    Some((next()?, next()?, next().unwrap_or(0)))
}

fn nccl_version(facts: &Facts, node: Id) -> Fact<(u64, u64, u64)> {
    facts
        .get(node, node::NCCL_VERSION)
        .and_then(|text| version(&text).ok_or_else(|| format!("{text:?} is not an NCCL version")))
}

/// The paths that NCCL tries, read in every release's src/transport/net_ib.cc: memory_peers/nv_mem
/// always; memory_peers/nvidia-peermem from 2.9.8 to 2.21.5; memory_peers/nv_mem_nc since 2.22.3;
/// /sys/module/nvidia_peermem/version since 2.23.4.
fn seen(facts: &Facts, node: Id) -> Fact<bool> {
    let peers = known!(facts.get(node, node::MEMORY_PEERS));
    let has = |name: &str| peers.iter().any(|peer| &**peer == name);
    if has("nv_mem") {
        return Fact::derived(true, "/sys/kernel/mm/memory_peers/nv_mem");
    }
    let by_module = match facts.find(Subject::Module, node, "nvidia_peermem") {
        Some(id) => facts.get(id, module::VERSION).map(|v| &*v != "none"),
        None => Fact::Unknown(Gap::missing("module nvidia_peermem")),
    };
    let any = has("nv_mem_nc") || has("nvidia-peermem");
    if !any && by_module.known() == Some(&false) {
        return Fact::derived(
            false,
            "no peer memory module is there for any version of NCCL",
        );
    }
    let Fact::Known(nccl, _) = nccl_version(facts, node) else {
        return Fact::Unknown(Gap::missing("node.nccl_version"));
    };
    let rule = |path: &str| format!("NCCL {}.{}.{} looks for {path}", nccl.0, nccl.1, nccl.2);
    if nccl < (2, 9, 8) {
        Fact::derived(false, rule("memory_peers/nv_mem only"))
    } else if nccl < (2, 22, 0) {
        let there = has("nvidia-peermem");
        Fact::derived(there, rule("memory_peers/nv_mem and nvidia-peermem"))
    } else if has("nv_mem_nc") {
        Fact::derived(true, rule("memory_peers/nv_mem_nc"))
    } else if nccl < (2, 23, 0) {
        Fact::derived(false, rule("memory_peers/nv_mem and nv_mem_nc"))
    } else {
        Fact::derived(
            known!(by_module),
            rule("/sys/module/nvidia_peermem/version"),
        )
    }
}

/// Whether the RDMA core of this kernel cannot take DMA-BUFs. Upstream has it since 5.12; NVIDIA's
/// stack brings it to older kernels, but to none without `dma_buf_dynamic_attach` (5.5); enterprise
/// distributions bring it to theirs.
fn kernel_too_old(facts: &Facts, node: Id) -> Fact<bool> {
    let (release, _) = known!(facts.get(node, node::KERNEL), with origin);
    let Some((major, minor, _)) = version(&release) else {
        return Fact::Unknown(Gap::missing("the kernel's version"));
    };
    let backports = release.contains(".el") || release.ends_with("-default");
    let how = || format!("kernel {release}");
    if backports || (major, minor) >= (5, 12) {
        return Fact::derived(false, how());
    }
    if (major, minor) < (5, 5) {
        return Fact::derived(true, how());
    }
    facts
        .get(node, node::RDMA_STACK)
        .flat_map(|stack| Fact::derived(stack == node::RdmaStack::Inbox, how()))
}

/// The number that a NCCL_* variable is read as; `None` where it is not set.
fn set_to(facts: &Facts, node: Id, name: &str) -> Fact<Option<i64>> {
    let value = facts.named(node, name, variable::VALUE);
    value.map(|value| Some(decimal(&value.filter(|value| !value.is_empty())?)))
}

fn dma_buf(facts: &Facts, node: Id) -> Fact<DmaBuf> {
    let driver = known!(facts.get(node, node::NVIDIA_DRIVER));
    if &*driver == "none" {
        return Fact::Unknown(Gap::missing("NVIDIA's driver, which is not loaded,"));
    }
    let kernel = kernel_too_old(facts, node);
    if let Fact::Known(true, origin) = kernel {
        return Fact::Known(DmaBuf::OldKernel, origin);
    }
    let open = facts.get(node, node::NVIDIA_OPEN);
    if let Fact::Known(false, _) = open {
        return Fact::derived(
            DmaBuf::ProprietaryModule,
            format!("driver {driver}, proprietary"),
        );
    }
    let nccl = nccl_version(facts, node);
    if let Fact::Known((major, minor, _), origin) = &nccl
        && (*major, *minor) < (2, 13)
    {
        return Fact::Known(DmaBuf::OldNccl, origin.clone());
    }
    let switch = set_to(facts, node, "NCCL_DMABUF_ENABLE");
    if let Fact::Known(Some(0), origin) = &switch {
        return Fact::Known(DmaBuf::SwitchedOff, origin.clone());
    }
    let all = kernel.zip(open).zip(nccl);
    all.flat_map(|_| Fact::derived(DmaBuf::Possible, "nothing speaks against it"))
}

/// NCCL asks each of its GPUs: one that cannot is enough for a no (src/init.cc, `dmaBufSupported`).
fn dma_buf_in_cuda(facts: &Facts, node: Id) -> Fact<bool> {
    let none = || Fact::Unknown(Gap::missing("a GPU that CUDA shows"));
    if known!(facts.get(node, node::CUDA_DEVICES)) == 0 {
        return none();
    }
    // What CUDA does not show has no part.
    let of = |id| match facts.get(id, gpu::IN_CUDA) {
        Fact::Known(false, _) => None,
        shown => Some(shown.zip(facts.get(id, gpu::DMA_BUF)).map(|(_, can)| can)),
    };
    let shown: Several<bool> = facts.below(node, Subject::Gpu).filter_map(of).collect();
    match shown.members() {
        0 => none(),
        count => Fact::of(
            shown.all(|can| *can),
            format!("gpu.dma_buf of {count} GPUs"),
        ),
    }
}

fn way(facts: &Facts, node: Id) -> Fact<Gpudirect> {
    let peers = facts.get(node, node::MEMORY_PEERS);
    match (
        facts.get(node, node::PEERMEM_SEEN),
        facts.get(node, node::DMA_BUF),
    ) {
        (Fact::Known(true, origin), _) => match peers {
            Fact::Known(peers, _) if peers.iter().any(|p| p.starts_with("nv_mem")) => {
                Fact::Known(Gpudirect::NvMem, origin)
            }
            Fact::Known(..) => Fact::Known(Gpudirect::Peermem, origin),
            Fact::Unknown(gap) => Fact::Unknown(gap),
        },
        (_, Fact::Known(DmaBuf::Possible, _)) => {
            match (
                facts.get(node, node::CUDA_DMA_BUF),
                facts.get(node, node::PEERMEM_SEEN),
            ) {
                (Fact::Known(true, origin), _) => Fact::Known(Gpudirect::DmaBuf, origin),
                (Fact::Known(false, origin), Fact::Known(false, _)) => {
                    Fact::Known(Gpudirect::None, origin)
                }
                (Fact::Known(false, _), Fact::Unknown(gap)) => Fact::Unknown(gap),
                _ => Fact::Unknown(Gap::missing(
                    "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, which only CUDA tells,",
                )),
            }
        }
        (Fact::Known(false, _), Fact::Known(obstacle, _)) => Fact::derived(
            Gpudirect::None,
            format!(
                "no peer memory module that NCCL finds, and no DMA-BUF: {}",
                obstacle.word()
            ),
        ),
        (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => Fact::Unknown(gap),
    }
}

/// Compute GPUs, and a fast port in use of an adapter whose driver takes GPU memory on these ways.
/// Others, as EFA, have their own.
fn wanted(facts: &Facts, node: Id) -> Fact<bool> {
    match facts.is_any(node, node::COMPUTE_GPUS) {
        Fact::Known(true, _) => {}
        no => return no,
    }
    let mut open = facts.incomplete(node, Subject::Port);
    for id in facts.below(node, Subject::Port) {
        if is_for_gpus(facts, id).or_open(&mut open) == Some(true) {
            return Fact::derived(true, format!("compute GPUs, and {}", facts.name(id)));
        }
    }
    Fact::derived(false, "no fast port in use of driver mlx5_core").unless(open)
}

/// Whether a port is one that GPUs' traffic takes: each of what it needs is known, or one of them
/// is known to be missing.
fn is_for_gpus(facts: &Facts, port: Id) -> Fact<bool> {
    let Some(device) = facts.ancestor(port, Subject::Device) else {
        return Fact::Unknown(Gap::missing("device"));
    };
    let needs = [
        facts
            .get(device, device::DRIVER)
            .map(|d| &*d == "mlx5_core"),
        facts.get(port, port::INTENDED),
        facts.get(port, port::STATE).map(|s| s == PortState::Active),
        facts
            .get(port, port::RATE)
            .map(|rate| rate >= facts.limit(limit::RATE_FOR_GPUS)),
    ];
    let needs: Several<bool> = needs.into_iter().collect();
    Fact::of(needs.all(|need| *need), facts.name(port).to_owned())
}

/// NCCL asks for exactly 1 (src/init.cc, `initGdrCopy`).
fn gdrcopy_wanted(facts: &Facts, node: Id) -> Fact<bool> {
    set_to(facts, node, "NCCL_GDRCOPY_ENABLE").map(|number| number == Some(1))
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::fact::BitRate;
    use crate::fact::node::RdmaStack;
    use crate::fact::{Membership, Origin};

    fn texts(texts: &[&str]) -> Fact<Arc<[Arc<str>]>> {
        stated(texts.iter().map(|t| Arc::from(*t)).collect())
    }

    /// A node with these memory peers, nvidia_peermem loaded or not, and this NCCL.
    fn gpu_node(peers: &[&str], peermem: bool, nccl: &str) -> (Facts, Id) {
        let mut facts = Facts::new();
        let n = node(&mut facts);
        facts.set(n, node::MEMORY_PEERS, texts(peers));
        for name in MODULES {
            let id = facts.instance(Subject::Module, n, name);
            let present = peermem && name == "nvidia_peermem";
            facts.set(id, module::PRESENT, stated(present));
            let version = if present { "550.54.15" } else { "none" };
            facts.set(id, module::VERSION, stated(version.into()));
        }
        if !nccl.is_empty() {
            facts.set(n, node::NCCL_VERSION, stated(nccl.into()));
        }
        facts.set(n, node::COMPUTE_GPUS, stated(8));
        facts.set(n, node::RDMA_STACK, stated(RdmaStack::Inbox));
        facts.set_members(Subject::Variable, n, Membership::Known(Origin::Stated));
        (facts, n)
    }

    fn driver(facts: &mut Facts, n: Id, kernel: &str, open: bool) {
        facts.set(n, node::KERNEL, stated(kernel.into()));
        facts.set(n, node::NVIDIA_DRIVER, stated("550.54.15".into()));
        facts.set(n, node::NVIDIA_OPEN, stated(open));
    }

    #[test]
    fn each_version_of_nccl_looks_elsewhere() {
        for (nccl, peers, peermem, expected) in [
            ("2.8.4", &["nv_mem"][..], false, Some(true)),
            ("2.9.6", &["nvidia-peermem"], true, Some(false)),
            ("2.9.8", &["nvidia-peermem"], true, Some(true)),
            ("2.21.5", &["nvidia-peermem"], true, Some(true)),
            ("2.21.5", &["nv_mem_nc"], true, Some(false)),
            ("2.22.3", &["nvidia-peermem"], true, Some(false)),
            ("2.22.3", &["nv_mem_nc"], true, Some(true)),
            ("2.22.3", &[], true, Some(false)),
            ("2.23.4", &[], true, Some(true)),
            ("2.27.5+cuda12.9", &[], true, Some(true)),
            ("2.27.5", &[], false, Some(false)),
            ("2.27.5", &["amdkfd"], false, Some(false)),
            // Without the version, only what all versions agree on is known.
            ("", &[], true, None),
            ("", &[], false, Some(false)),
            ("", &["nv_mem"], false, Some(true)),
            ("none", &[], true, None),
        ] {
            let (mut facts, n) = gpu_node(peers, peermem, nccl);
            derive(&mut facts, n);
            let found = facts.known(n, node::PEERMEM_SEEN);
            assert_eq!(found, expected, "{nccl} {peers:?} {peermem}");
        }
    }

    #[test]
    fn dma_buf_is_ruled_out_or_left_to_cuda() {
        for (kernel, open, nccl, expected) in [
            ("6.8.0-45-generic", true, "2.27.5", Some(DmaBuf::Possible)),
            (
                "6.8.0-45-generic",
                false,
                "2.27.5",
                Some(DmaBuf::ProprietaryModule),
            ),
            ("5.4.0-150-generic", true, "2.27.5", Some(DmaBuf::OldKernel)),
            ("5.11.0", true, "2.27.5", Some(DmaBuf::OldKernel)),
            (
                "4.18.0-553.el8_10.x86_64",
                true,
                "2.27.5",
                Some(DmaBuf::Possible),
            ),
            ("6.8.0-45-generic", true, "2.12.12", Some(DmaBuf::OldNccl)),
            ("6.8.0-45-generic", true, "", None),
        ] {
            let (mut facts, n) = gpu_node(&[], false, nccl);
            driver(&mut facts, n, kernel, open);
            derive(&mut facts, n);
            assert_eq!(
                facts.known(n, node::DMA_BUF),
                expected,
                "{kernel} {open} {nccl}"
            );
            let none = expected.is_some_and(|word| word != DmaBuf::Possible);
            let way = facts.known(n, node::GPUDIRECT);
            assert_eq!(
                way,
                none.then_some(Gpudirect::None),
                "{kernel} {open} {nccl}"
            );
        }
    }

    #[test]
    fn cuda_has_the_last_word_on_dma_buf() {
        for (answers, expected) in [
            (&[Some(true), Some(true)][..], Some(Gpudirect::DmaBuf)),
            (&[Some(true), Some(false)], Some(Gpudirect::None)),
            (&[Some(true), None], None),
            (&[], None),
        ] {
            let (mut facts, n) = gpu_node(&[], false, "2.27.5");
            driver(&mut facts, n, "6.8.0", true);
            facts.set(n, node::CUDA_DEVICES, stated(answers.len() as u64));
            for (at, answer) in answers.iter().enumerate() {
                let id = facts.instance(Subject::Gpu, n, &format!("0000:{at:02x}:00.0"));
                facts.set(id, gpu::IN_CUDA, stated(true));
                if let Some(answer) = answer {
                    facts.set(id, gpu::DMA_BUF, stated(*answer));
                }
            }
            derive(&mut facts, n);
            assert_eq!(facts.known(n, node::GPUDIRECT), expected, "{answers:?}");
        }
    }

    #[test]
    fn a_switch_in_the_environment_rules_dma_buf_out() {
        let (mut facts, n) = gpu_node(&[], false, "2.27.5");
        driver(&mut facts, n, "6.8.0", true);
        let id = facts.instance(Subject::Variable, n, "NCCL_DMABUF_ENABLE");
        facts.set(id, variable::VALUE, stated("false".into()));
        let id = facts.instance(Subject::Variable, n, "NCCL_GDRCOPY_ENABLE");
        facts.set(id, variable::VALUE, stated("1".into()));
        derive(&mut facts, n);
        assert_eq!(facts.known(n, node::DMA_BUF), Some(DmaBuf::SwitchedOff));
        assert_eq!(facts.known(n, node::GDRCOPY_WANTED), Some(true));
    }

    #[test]
    fn a_peer_module_that_nccl_finds_is_a_way_whatever_the_kernel() {
        let (mut facts, n) = gpu_node(&["nv_mem", "nv_mem_nc"], true, "2.18.6");
        driver(&mut facts, n, "5.4.0", false);
        derive(&mut facts, n);
        assert_eq!(facts.known(n, node::GPUDIRECT), Some(Gpudirect::NvMem));
        let (mut facts, n) = gpu_node(&[], true, "2.27.5");
        driver(&mut facts, n, "5.15.0", false);
        derive(&mut facts, n);
        assert_eq!(facts.known(n, node::GPUDIRECT), Some(Gpudirect::Peermem));
    }

    #[test]
    fn it_is_wanted_between_compute_gpus_and_adapters_in_use() {
        for (driver, gigabits, expected) in [
            ("mlx5_core", 400, true),
            ("mlx5_core", 25, false),
            ("efa", 200, false),
        ] {
            let mut facts = Facts::new();
            let n = node(&mut facts);
            facts.set(n, node::COMPUTE_GPUS, stated(8));
            let d = facts.instance(Subject::Device, n, "rdma0");
            facts.set(d, device::DRIVER, stated(driver.into()));
            facts.set_members(Subject::Port, d, Membership::Known(Origin::Stated));
            let p = facts.instance(Subject::Port, d, "rdma0/1");
            facts.set(p, port::STATE, stated(PortState::Active));
            facts.set(p, port::INTENDED, stated(true));
            facts.set(p, port::RATE, stated(BitRate(gigabits * 1_000_000_000)));
            derive(&mut facts, n);
            assert_eq!(
                facts.known(n, node::GPUDIRECT_WANTED),
                Some(expected),
                "{driver}"
            );
        }
    }

    #[test]
    fn numbers_as_nccl_reads_them() {
        for (text, number) in [
            ("1", 1),
            ("0", 0),
            ("true", 0),
            ("-2x", -2),
            (" 7 ", 7),
            ("", 0),
        ] {
            assert_eq!(decimal(text), number, "{text:?}");
        }
    }
}
