//! What a reboot makes of settings that hold now: the MTU of interfaces, parameters of the kernel, its command line and
//! its modules, beside the files that set them at boot.
//!
//! A setting is lost only where the files that would hold it were read and do not, and nothing else is known to set it: no
//! script, no DHCP server, no tuned. Where that cannot be told, nothing is said.

mod kernel_line;
mod mtu;
mod netplan;
mod sysctl;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Ask, Probe, inside, service};
use crate::fact::boot_setting::{self, AfterBoot, BootSettingKind};
use crate::fact::{Fact, Facts, Gap, Id, Membership, Origin, Subject, Why, node};
use crate::source::{Errno, Question, Refusal};

/// The probe.
pub const PROBE: Probe = Probe::new("boot_setting", run);

/// Modules that nothing loads by itself: no hardware asks for them.
const MODULES: [&str; 2] = ["nvidia_peermem", "nv_peer_mem"];
/// Tools whose settings end with the next boot.
const QOS_TOOLS: [&str; 6] = [
    "mlnx_qos",
    "dcb",
    "lldptool",
    "cma_roce_tos",
    "cma_roce_mode",
    "niccli",
];
/// What a script runs to set parameters of the kernel.
const SYSCTL_TOOLS: [&str; 2] = ["sysctl", "tuned-adm"];
/// Where the driver of GPUs lies that a container brought: the container loads its modules.
const DRIVER_OF_CONTAINER: &str = "/run/nvidia/driver";

/// Where it is read.
const FILES: &str = "the files that the boot reads";

/// The lines of files, by path, as they are told.
#[derive(Deserialize)]
struct ToldFiles {
    files: BTreeMap<String, Vec<String>>,
    denied: Vec<String>,
}

/// The lines of a file.
struct BootFile {
    path: String,
    lines: Vec<String>,
}

/// The files, by path, and those that may not be read.
struct BootFiles {
    all: Vec<BootFile>,
    denied: Vec<String>,
}

impl From<ToldFiles> for BootFiles {
    fn from(told: ToldFiles) -> Self {
        let mut all = Vec::with_capacity(told.files.len());
        for (path, lines) in told.files {
            all.push(BootFile { path, lines });
        }
        BootFiles {
            all,
            denied: told.denied,
        }
    }
}

impl BootFiles {
    /// The files whose path begins with one of these.
    fn below<'f>(&'f self, places: &'f [&str]) -> impl Iterator<Item = &'f BootFile> {
        let all = self.all.iter();
        all.filter(move |file| places.iter().any(|place| file.path.starts_with(place)))
    }

    /// Whether one that begins so may not be read.
    fn hides(&self, places: &[&str]) -> bool {
        let mut denied = self.denied.iter();
        denied.any(|path| places.iter().any(|place| path.starts_with(place)))
    }

    /// The files that run one of these.
    fn running<'f>(&'f self, tools: &'f [&str]) -> impl Iterator<Item = &'f BootFile> {
        let all = self.all.iter();
        all.filter(move |file| file.lines.iter().any(|line| runs_one(line, tools)))
    }
}

/// Whether a line tells that one of these is run; modules have dashes or underscores.
fn runs_one(line: &str, tools: &[&str]) -> bool {
    let tool = line.strip_prefix("runs ");
    tool.is_some_and(|tool| tools.contains(&tool) || tools.contains(&&*tool.replace('-', "_")))
}

/// First processes that start what these files configure. Older ones of systemd and of SysV have the same name.
const INITS: [&str; 5] = ["systemd", "init", "openrc-init", "runit", "s6-svscan"];

/// A setting, and what the next boot makes of it.
struct Found {
    name: String,
    word: String,
    kind: BootSettingKind,
    rail: Fact<bool>,
    now: String,
    next: String,
    after: AfterBoot,
    file: String,
}

/// What was found, and why there may be more.
#[derive(Default)]
struct Settings {
    found: Vec<Found>,
    /// Settings of which it is not known what they are now.
    unread: Vec<Unread>,
    open: Option<Gap>,
}

struct Unread {
    name: String,
    kind: BootSettingKind,
    gap: Gap,
}

impl Settings {
    /// A reply that is missing, but for that of a file that the kernel does not have.
    fn lacks(&mut self, gap: &Gap) {
        if !is_absence(gap) {
            self.open.get_or_insert_with(|| gap.clone());
        }
    }

    /// The same of a setting that has a name.
    fn lacks_value(&mut self, name: &str, kind: BootSettingKind, gap: &Gap) {
        if !is_absence(gap) {
            self.unread.push(Unread {
                name: name.to_owned(),
                kind,
                gap: gap.clone(),
            });
        }
    }
}

fn is_absence(gap: &Gap) -> bool {
    matches!(gap.why, Why::Refused(Refusal::Errno(Errno::ENOENT)))
}

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let outside = service::first_pid_namespace(ask);
    if outside.known() == Some(&false) {
        let gap = Gap::missing("what the host's next boot sets: this is a container");
        facts.set_members(Subject::BootSetting, node, Membership::Unknown(gap));
        return;
    }
    // A machine whose first process is another one, as those of microVMs are, reads none of these files when it starts.
    let init = ask.text("/proc/1/comm");
    if init
        .known()
        .is_some_and(|name| !INITS.contains(&name.trim()))
    {
        let gap = Gap::missing("what the next boot sets: its first process reads no such files");
        facts.set_members(Subject::BootSetting, node, Membership::Unknown(gap));
        return;
    }
    let question = question();
    let files = match ask.read::<ToldFiles>(question.clone()) {
        Fact::Known(told, _) => BootFiles::from(told),
        Fact::Unknown(gap) => {
            facts.set(node, node::QOS_KEPT, Fact::Unknown(gap.clone()));
            facts.set_members(Subject::BootSetting, node, Membership::Unknown(gap));
            return;
        }
    };
    let origin = Origin::Asked(question);
    // One that may not be read can be the one that does.
    let is_kept = match files.running(&QOS_TOOLS).next() {
        Some(_) => Fact::Known(true, origin.clone()),
        None if files.denied.is_empty() => Fact::Known(false, origin.clone()),
        None => Fact::Unknown(Gap::missing("what each file of the boot runs")),
    };
    facts.set(node, node::QOS_KEPT, is_kept);
    let mut settings = Settings::default();
    mtu::find(ask, &files, &mut settings);
    sysctl::find(ask, &files, &mut settings);
    kernel_line::find(ask, &files, &mut settings);
    find_modules(ask, &files, &mut settings);
    for one in settings.unread {
        let id = facts.instance(Subject::BootSetting, node, &one.name);
        facts.derive(id, boot_setting::KIND, one.kind, FILES);
        for key in [boot_setting::NOW, boot_setting::NEXT, boot_setting::FILE] {
            facts.set(id, key, Fact::Unknown(one.gap.clone()));
        }
        facts.set(id, boot_setting::RAIL, Fact::Unknown(one.gap.clone()));
        facts.set(id, boot_setting::AFTER, Fact::Unknown(one.gap));
    }
    for one in settings.found {
        let id = facts.instance(Subject::BootSetting, node, &one.name);
        facts.derive(id, boot_setting::KIND, one.kind, FILES);
        facts.derive(id, boot_setting::WORD, one.word.into(), FILES);
        facts.set(id, boot_setting::RAIL, one.rail);
        facts.derive(id, boot_setting::NOW, one.now.into(), FILES);
        facts.derive(id, boot_setting::NEXT, one.next.into(), FILES);
        facts.derive(id, boot_setting::AFTER, one.after, FILES);
        facts.derive(id, boot_setting::FILE, one.file.into(), FILES);
    }
    let membership = Membership::known_unless(settings.open, origin);
    facts.set_members(Subject::BootSetting, node, membership);
}

/// The question: which names are of interest.
fn question() -> Question {
    let joined = |names: &[&str]| names.join(" ");
    let tools = [&QOS_TOOLS[..], &SYSCTL_TOOLS[..]].concat();
    Question::call(
        "boot_settings",
        [
            ("sysctl", sysctl::keys().as_str().into()),
            ("modules", joined(&MODULES).as_str().into()),
            (
                "parameters",
                joined(kernel_line::PARAMETERS).as_str().into(),
            ),
            ("tools", joined(&tools).as_str().into()),
        ],
    )
}

/// The modules that are loaded, and whether a file has them loaded again.
fn find_modules(ask: &Ask<'_>, files: &BootFiles, settings: &mut Settings) {
    const PLACES: [&str; 6] = [
        "/etc/modules",
        "/etc/modules-load.d/",
        "/usr/lib/modules-load.d/",
        "/run/modules-load.d/",
        "/etc/modprobe.d/",
        "/usr/lib/modprobe.d/",
    ];
    match ask.exists(DRIVER_OF_CONTAINER) {
        Fact::Known(false, _) => {}
        Fact::Known(true, _) => return,
        Fact::Unknown(gap) => return settings.lacks(&gap),
    }
    let mut loaded = Vec::new();
    for module in &MODULES {
        match ask.exists(&inside("/sys/module", module)) {
            Fact::Known(true, _) => loaded.push(module),
            Fact::Known(false, _) => {}
            Fact::Unknown(gap) => {
                let name = format!("module {module}");
                settings.lacks_value(&name, BootSettingKind::Module, &gap);
            }
        }
    }
    let found = loaded.into_iter().filter_map(|module| {
        let names = |line: &String| {
            let mut words = line.split_whitespace();
            let is_off = line.starts_with("blacklist");
            !is_off && words.any(|word| word.replace('-', "_") == *module)
        };
        let mut listed = files.below(&PLACES);
        let file = listed.find(|file| file.lines.iter().any(names));
        let file = file.or_else(|| files.running(std::slice::from_ref(module)).next());
        // What may not be read can be what loads it.
        let is_told = file.is_some() || files.denied.is_empty();
        is_told.then(|| Found {
            name: format!("module {module}"),
            word: (*module).to_owned(),
            rail: Fact::derived(false, FILES),
            kind: BootSettingKind::Module,
            now: "loaded".to_owned(),
            next: if file.is_some() { "loaded" } else { "not" }.to_owned(),
            after: if file.is_some() {
                AfterBoot::Stays
            } else {
                AfterBoot::Lost
            },
            file: file
                .map_or("/etc/modules-load.d", |file| &file.path)
                .to_owned(),
        })
    });
    settings.found.extend(found);
}
