//! Kernel modules that matter to RDMA and GPUs.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use foldhash::fast::FixedState;

use super::{Ask, Probe};
use crate::fact::{Fact, Facts, Gap, Id, Membership, Origin, Subject, module};

/// The probe.
pub const PROBE: Probe = Probe::new("module", run);

/// The modules that matter, of the kernel's tree.
const IN_TREE: &str = "\
    ib_core ib_uverbs ib_umad ib_cm rdma_cm rdma_ucm ib_ipoib mlx4_core mlx4_ib mlx5_core mlx5_ib \
    irdma bnxt_re efa hfi1 qedr mana_ib erdma rdma_rxe siw nouveau";
/// The modules that matter, of no kernel's tree, so that no kernel has them built in.
pub(super) const OUT_OF_TREE: &str = "nvidia nvidia_peermem nv_peer_mem gdrdrv mlx_compat";

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    // A kernel without CONFIG_MODULES has no such file.
    let loaded = (ask.text_if_any("/proc/modules"))
        .map(|text| loaded_modules(&text))
        .or_absent(Names::default());
    let release = ask.text("/proc/sys/kernel/osrelease");
    let builtin = release.flat_map(
        |release| match release.is_empty() || release.contains('/') {
            true => Fact::Unknown(Gap::missing("the kernel's release")),
            false => (ask.text(format!("/lib/modules/{release}/modules.builtin")))
                .map(|text| builtin_modules(&text)),
        },
    );
    // Asked once, so that an absent module costs no question of its own if the listing tells.
    let listed = ask.names("/sys/module");
    let members = Membership::Known(Origin::derived("the modules that matter"));
    facts.set_members(Subject::Module, node, members);
    let known = KernelModules {
        loaded,
        builtin,
        listed,
    };
    for (names, in_tree) in [(IN_TREE, true), (OUT_OF_TREE, false)] {
        for name in names.split(' ') {
            let id = facts.instance(Subject::Module, node, name);
            let (present, builtin) = known.judge(ask, name, in_tree);
            let version = match &present {
                Fact::Known(true, _) => ask
                    .text_if_any(format!("/sys/module/{name}/version"))
                    .or_absent("none".into()),
                Fact::Known(false, origin) => Fact::Known(Arc::from("none"), origin.clone()),
                Fact::Unknown(gap) => Fact::Unknown(gap.clone()),
            };
            facts.set(id, module::PRESENT, present);
            facts.set(id, module::BUILTIN, builtin);
            facts.set(id, module::VERSION, version);
        }
    }
}

/// Names of modules that matter.
type Names = HashSet<&'static str, FixedState>;

/// The machine's kernel modules.
struct KernelModules {
    loaded: Fact<Names>,
    builtin: Fact<Names>,
    listed: Fact<Arc<[Arc<str>]>>,
}

impl KernelModules {
    /// Whether the module is there, and whether it is part of the kernel's image.
    fn judge(&self, ask: &Ask<'_>, name: &str, in_tree: bool) -> (Fact<bool>, Fact<bool>) {
        for (list, is_builtin) in [(&self.loaded, false), (&self.builtin, true)] {
            if let Fact::Known(names, origin) = list
                && names.contains(name)
            {
                let known = |value| Fact::Known(value, origin.clone());
                return (known(true), known(is_builtin));
            }
        }
        let in_sysfs = match &self.listed {
            Fact::Known(names, origin) if names.iter().any(|n| &**n == name) => {
                Fact::Known(true, origin.clone())
            }
            Fact::Known(_, origin) if self.loaded.known().is_some() => {
                Fact::Known(false, origin.clone())
            }
            // A copied tree may hold a part of the directory: there, the name itself is asked for, and is not recorded.
            Fact::Known(..) => ask.names_if_any(format!("/sys/module/{name}")).is_present(),
            Fact::Unknown(gap) => Fact::Unknown(gap.clone()),
        };
        match (in_sysfs, &self.loaded, &self.builtin) {
            // What is in sysfs and not in the list of loaded modules is in the image.
            (Fact::Known(true, origin), Fact::Known(..), _) => {
                (Fact::Known(true, origin.clone()), Fact::Known(true, origin))
            }
            (Fact::Known(true, origin), Fact::Unknown(gap), _) => {
                (Fact::Known(true, origin), Fact::Unknown(gap.clone()))
            }
            // Not everything in the image has a directory in sysfs, so its own list decides, for what can be in it.
            (_, Fact::Known(_, origin), Fact::Known(..)) => absent(origin),
            (Fact::Known(false, origin), _, Fact::Known(..)) => absent(&origin),
            (_, Fact::Known(_, origin), _) if !in_tree => absent(origin),
            (Fact::Known(false, origin), ..) if !in_tree => absent(&origin),
            (Fact::Unknown(gap), Fact::Unknown(_), _) => unknown(&gap),
            (_, _, Fact::Unknown(gap)) => unknown(gap),
        }
    }
}

fn absent(origin: &Origin) -> (Fact<bool>, Fact<bool>) {
    (
        Fact::Known(false, origin.clone()),
        Fact::Known(false, origin.clone()),
    )
}

fn unknown(gap: &Gap) -> (Fact<bool>, Fact<bool>) {
    (Fact::Unknown(gap.clone()), Fact::Unknown(gap.clone()))
}

/// The module of this name, if it matters. The kernel takes `-` and `_` for the same.
fn mattering(name: &str) -> Option<&'static str> {
    static ALL: LazyLock<Names> = LazyLock::new(|| {
        let all = IN_TREE.split(' ').chain(OUT_OF_TREE.split(' '));
        all.collect()
    });
    match name.contains('-') {
        true => ALL.get(&*name.replace('-', "_")).copied(),
        false => ALL.get(name).copied(),
    }
}

/// Those in /proc/modules: the first word of each line.
fn loaded_modules(text: &str) -> Names {
    let names = text
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    names.filter_map(mattering).collect()
}

/// Those in modules.builtin: `kernel/drivers/infiniband/core/ib_core.ko`.
fn builtin_modules(text: &str) -> Names {
    let names = text
        .lines()
        .filter_map(|line| line.trim_end().rsplit('/').next());
    let names = names.filter_map(|file| file.strip_suffix(".ko"));
    names.filter_map(mattering).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::testing::{known, run};
    use crate::source::{Question, Refusal};

    const RELEASE: &str =
        r#"{"q":{"read":"/proc/sys/kernel/osrelease"},"text":"6.1.0-49-amd64\n"}"#;
    const LOADED: &str = r#"{"q":{"read":"/proc/modules"},"text":"rdma_ucm 32768 0 - Live 0x0000000000000000\nib_uverbs 180224 2 rdma_ucm,mlx5_ib, Live 0x0000000000000000\nnvidia 56717312 2 - Live 0x0 (POE)\n"}"#;
    const BUILTIN: &str = r#"{"q":{"read":"/lib/modules/6.1.0-49-amd64/modules.builtin"},"text":"kernel/fs/ext4/ext4.ko\nkernel/drivers/infiniband/core/ib-core.ko\n"}"#;
    const NO_BUILTIN: &str =
        r#"{"q":{"read":"/lib/modules/6.1.0-49-amd64/modules.builtin"},"errno":"ENOENT"}"#;
    const LISTED: &str = r#"{"q":{"list":"/sys/module"},"names":["ib_cm","ib_uverbs","kernel","nvidia","rdma_ucm"]}"#;

    fn present(facts: &Facts, name: &str) -> Option<bool> {
        known(facts, Subject::Module, name, module::PRESENT)
    }

    #[test]
    fn loaded_built_in_and_absent() {
        let (facts, node) = run(
            &PROBE,
            &[
                RELEASE,
                LOADED,
                BUILTIN,
                LISTED,
                r#"{"q":{"read":"/sys/module/nvidia/version"},"text":"550.54.15\n"}"#,
                r#"{"q":{"read":"/sys/module/rdma_ucm/version"},"errno":"ENOENT"}"#,
                r#"{"q":{"list":"/sys/module/rdma_ucm"},"names":["refcnt"]}"#,
            ],
        );
        assert!(facts.members(Subject::Module, node).is_ok());
        let builtin = |name| known(&facts, Subject::Module, name, module::BUILTIN);
        let version = |name| known(&facts, Subject::Module, name, module::VERSION);
        assert_eq!(
            (present(&facts, "rdma_ucm"), builtin("rdma_ucm")),
            (Some(true), Some(false))
        );
        assert_eq!(
            (present(&facts, "ib_core"), builtin("ib_core")),
            (Some(true), Some(true))
        );
        assert_eq!(
            (present(&facts, "ib_cm"), builtin("ib_cm")),
            (Some(true), Some(true))
        );
        assert_eq!(
            (present(&facts, "mlx5_ib"), builtin("mlx5_ib")),
            (Some(false), Some(false))
        );
        assert_eq!(version("nvidia").as_deref(), Some("550.54.15"));
        assert_eq!(version("rdma_ucm").as_deref(), Some("none"));
        assert_eq!(version("ib_uverbs"), None, "not recorded is not known");
        assert_eq!(version("mlx5_ib").as_deref(), Some("none"));
    }

    #[test]
    fn without_the_list_of_built_in_modules_absence_is_known_of_foreign_ones_only() {
        let (facts, _) = run(&PROBE, &[RELEASE, LOADED, NO_BUILTIN, LISTED]);
        assert_eq!(present(&facts, "nvidia_peermem"), Some(false));
        assert_eq!(present(&facts, "mlx5_ib"), None);
        assert_eq!(present(&facts, "ib_cm"), Some(true));
    }

    #[test]
    fn a_kernel_without_modules() {
        let (facts, _) = run(
            &PROBE,
            &[
                RELEASE,
                r#"{"q":{"read":"/proc/modules"},"errno":"ENOENT"}"#,
                r#"{"q":{"list":"/proc"},"names":["cpuinfo","self"]}"#,
                NO_BUILTIN,
                LISTED,
            ],
        );
        assert_eq!(present(&facts, "ib_uverbs"), Some(true), "sysfs has it");
        assert_eq!(present(&facts, "gdrdrv"), Some(false));
        assert_eq!(present(&facts, "mlx5_ib"), None);
    }

    #[test]
    fn nothing_recorded_is_nothing_known() {
        let (facts, _) = run(&PROBE, &[]);
        for id in facts.all(Subject::Module) {
            assert_eq!(facts.known(id, module::PRESENT), None);
        }
        let gap = facts
            .get(facts.all(Subject::Module).next().unwrap(), module::PRESENT)
            .as_result()
            .unwrap_err()
            .clone();
        assert_eq!(gap.why, crate::fact::Why::Refused(Refusal::NotRecorded));
        assert!(matches!(
            gap.origin,
            Origin::Asked(Question::List(_) | Question::Read(_))
        ));
    }
}
