//! What the machine's files make of its settings at the next boot: lines of them, and only those that are asked for. The
//! files hold passwords of networks and of services beside these; no other line leaves this file.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::files::{self, Root};
use crate::source::question::Call;
use crate::source::{Answer, Errno, Question, Refusal};

/// Files whose lines are kept by one rule: each place is a file, or `DIRECTORY/*SUFFIX`.
struct Places {
    keep: fn(&str, &Wanted<'_>) -> Vec<String>,
    /// Whether a file without such a line tells something: that it is there, and does not set it.
    count_alone: bool,
    all: &'static [&'static str],
}

/// The names that the question asks for.
struct Wanted<'c> {
    sysctl: Vec<&'c str>,
    modules: Vec<&'c str>,
    parameters: Vec<&'c str>,
    tools: Vec<&'c str>,
}

const PLACES: &[Places] = &[
    // sysctl.d(5)
    Places {
        keep: sysctl,
        count_alone: false,
        all: &[
            "/usr/lib/sysctl.d/*.conf",
            "/usr/local/lib/sysctl.d/*.conf",
            "/run/sysctl.d/*.conf",
            "/etc/sysctl.d/*.conf",
            "/etc/sysctl.conf",
            "/etc/tuned/active_profile",
        ],
    },
    // modules-load.d(5)
    Places {
        keep: modules,
        count_alone: false,
        all: &[
            "/usr/lib/modules-load.d/*.conf",
            "/run/modules-load.d/*.conf",
            "/etc/modules-load.d/*.conf",
            "/etc/modules",
            "/etc/rdma/modules/*.conf",
            "/usr/lib/modprobe.d/*.conf",
            "/etc/modprobe.d/*.conf",
        ],
    },
    // netplan(5), systemd.network(5), nm-settings-keyfile(5), sysconfig's ifcfg, interfaces(5)
    Places {
        keep: network,
        count_alone: true,
        all: &[
            "/etc/netplan/*.yaml",
            "/usr/lib/netplan/*.yaml",
            "/run/netplan/*.yaml",
            "/etc/systemd/network/*.network",
            "/etc/systemd/network/*.link",
            "/etc/systemd/network/*.network.d",
            "/usr/lib/systemd/network/*.link",
            "/etc/NetworkManager/system-connections/*.nmconnection",
            "/etc/sysconfig/network-scripts/ifcfg-*",
            "/etc/sysconfig/network/ifcfg-*",
            "/etc/network/interfaces",
            "/etc/network/interfaces.d/*",
        ],
    },
    // GRUB's configuration, the Boot Loader Specification's entries
    Places {
        keep: boot_loader,
        count_alone: true,
        all: &[
            "/boot/grub/grub.cfg",
            "/boot/grub2/grub.cfg",
            "/boot/grub2/grubenv",
            "/boot/loader/entries/*.conf",
            "/etc/default/grub",
            "/etc/default/grub.d/*.cfg",
            "/etc/kernel/cmdline",
        ],
    },
    // lldpad keeps here what lldptool set.
    Places {
        keep: |_, _| vec!["runs lldptool".to_owned()],
        count_alone: true,
        all: &["/var/lib/lldpad/lldpad.conf"],
    },
    Places {
        keep: script,
        count_alone: false,
        all: SCRIPTS,
    },
];

/// What an operator writes to run at boot, or when a link comes up.
const SCRIPTS: &[&str] = &[
    "/etc/systemd/system/*.service",
    "/etc/rc.local",
    "/etc/rc.d/rc.local",
    "/etc/network/interfaces",
    "/etc/network/interfaces.d/*",
    "/etc/network/if-up.d/*",
    "/etc/network/if-pre-up.d/*",
    "/etc/NetworkManager/dispatcher.d/*",
    "/etc/networkd-dispatcher/configured.d/*",
    "/etc/networkd-dispatcher/routable.d/*",
    "/etc/udev/rules.d/*.rules",
    "/etc/cron.d/*",
    "/etc/crontab",
    "/etc/infiniband/*.conf",
];

/// Files that are read of one directory, and scripts that units and rules name.
const FILES: usize = 256;
/// Lines that are kept of one file.
const LINES: usize = 512;

/// Answers `boot_settings`: `{"files":{PATH:[LINE,…]},"denied":[PATH,…]}`; denied is what is not known, a directory with its `/` at the end. A file of which no line is wanted has an
/// empty list where it says of itself that it is there: a file of an interface, of the boot loader.
pub(super) fn ask(root: Option<&Root>, call: &Call) -> Result<Answer, Refusal> {
    let names = |of: &str| -> Vec<&str> {
        let text = call.text(of).unwrap_or_default();
        text.split_whitespace().collect()
    };
    let wanted = Wanted {
        sysctl: names("sysctl"),
        modules: names("modules"),
        parameters: names("parameters"),
        tools: names("tools"),
    };
    let mut found = Found::default();
    let mut named: Vec<String> = Vec::new();
    for places in PLACES {
        let all = places.all.iter();
        let all: Vec<String> = all.flat_map(|place| found.paths(root, place)).collect();
        for path in all {
            let Some(text) = found.text(root, &path) else {
                continue;
            };
            let lines = (places.keep)(&text, &wanted);
            if places.count_alone || !lines.is_empty() {
                found.add(&path, lines);
            }
            if std::ptr::eq(places.all, SCRIPTS) {
                named.extend(programs(&text));
            }
        }
    }
    named.sort();
    named.dedup();
    for path in named.into_iter().take(FILES) {
        if let Some(text) = found
            .text(root, &path)
            .filter(|text| text.starts_with("#!"))
        {
            let lines = script(&text, &wanted);
            if !lines.is_empty() {
                found.add(&path, lines);
            }
        }
    }
    Ok(Answer::from(found.told()))
}

/// The lines of the files that could be read.
#[derive(Default)]
struct Found {
    files: BTreeMap<String, Vec<String>>,
    denied: Vec<String>,
}

impl Found {
    fn text(&mut self, root: Option<&Root>, path: &str) -> Option<Arc<str>> {
        match files::open_regular(root, path).and_then(|_| files::read(root, path)) {
            Ok(Answer::Text(text)) => Some(text),
            // Drop-ins of a file of networkd may hold an MTU.
            Err(Refusal::Errno(Errno::EISDIR)) if path.ends_with(".network.d") => {
                self.denied.push(path.to_owned());
                None
            }
            // A masked unit leads to /dev/null, and directories lie among files.
            Err(Refusal::Errno(Errno::ENOENT | Errno::ENOTDIR | Errno::EISDIR))
            | Err(Refusal::NotAsked(_)) => None,
            _ => {
                self.denied.push(path.to_owned());
                None
            }
        }
    }

    /// The files at a place; one that may not be listed is denied as a whole.
    fn paths(&mut self, root: Option<&Root>, place: &str) -> Vec<String> {
        match paths(root, place) {
            Ok(all) => all,
            // A copied tree need not hold everything.
            Err(Refusal::Errno(Errno::ENOENT | Errno::ENOTDIR)) if root.is_none() => Vec::new(),
            Err(_) => {
                let end = place.find('*').unwrap_or(place.len());
                self.denied.push(place[..end].to_owned());
                Vec::new()
            }
        }
    }

    fn add(&mut self, path: &str, lines: Vec<String>) {
        let known = self.files.entry(path.to_owned()).or_default();
        known.extend(lines);
        known.truncate(LINES);
    }

    fn told(self) -> Value {
        json!({ "files": self.files, "denied": self.denied })
    }
}

/// The files at a place, sorted by name.
fn paths(root: Option<&Root>, place: &str) -> Result<Vec<String>, Refusal> {
    let Some((directory, suffix)) = place.split_once("/*") else {
        // Prefixes of names stand before the star.
        return match place.split_once('*') {
            None => Ok(vec![place.to_owned()]),
            Some((before, _)) => {
                let (directory, prefix) = before.rsplit_once('/').unwrap_or(("", before));
                in_directory(root, directory, |name| name.starts_with(prefix))
            }
        };
    };
    in_directory(root, directory, |name| name.ends_with(suffix))
}

fn in_directory(
    root: Option<&Root>,
    directory: &str,
    is_meant: impl Fn(&str) -> bool,
) -> Result<Vec<String>, Refusal> {
    let names = match files::ask(root, &Question::list(directory)) {
        Some(Ok(Answer::Names(names))) => names,
        Some(Err(refusal)) => return Err(refusal),
        _ => return Ok(Vec::new()),
    };
    let mut names: Vec<&str> = names.iter().map(|name| &**name).collect();
    names.sort_unstable();
    let meant = names.into_iter().filter(|name| is_meant(name)).take(FILES);
    Ok(meant.map(|name| format!("{directory}/{name}")).collect())
}

/// The lines that are no comments.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim_end);
    lines.filter(|line| {
        let line = line.trim_start();
        !line.is_empty() && !line.starts_with(['#', ';'])
    })
}

/// `net.core.rmem_max = 1`; the name of tuned's profile has no such sign.
fn sysctl(text: &str, wanted: &Wanted<'_>) -> Vec<String> {
    let is_wanted = |line: &&str| match line.split_once('=') {
        Some((key, _)) => {
            let key = key.trim().trim_start_matches('-').replace('/', ".");
            wanted.sysctl.contains(&&*key)
        }
        None => line.split_whitespace().count() == 1,
    };
    let kept = lines(text).filter(is_wanted);
    kept.map(|line| line.trim().to_owned()).collect()
}

/// The lines that name a module, with underscores or dashes.
fn modules(text: &str, wanted: &Wanted<'_>) -> Vec<String> {
    let is_wanted = |word: &str| wanted.modules.contains(&&*word.replace('-', "_"));
    let kept = lines(text).filter(|line| line.split_whitespace().any(is_wanted));
    kept.map(|line| line.trim().to_owned()).collect()
}

/// Keys of the network's files that name interfaces, say how they get their addresses, or their MTU.
const NETWORK: &[&str] = &[
    "mtu",
    "mtubytes",
    "usemtu",
    "use-mtu",
    "name",
    "originalname",
    "macaddress",
    "mac-address",
    "hwaddr",
    "interface-name",
    "set-name",
    "device",
    "dhcp",
    "dhcp4",
    "bootproto",
    "method",
    "master",
    "bond",
    "bridge",
];

/// Sections of netplan that hold names of radio networks and passwords.
const PRIVATE: [&str; 4] = ["wifis:", "modems:", "tunnels:", "auth:"];

fn network(text: &str, _: &Wanted<'_>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut private = None;
    for line in lines(text) {
        let bare = line.trim_start();
        let depth = line.len() - bare.len();
        if private.is_some_and(|outer| depth > outer) {
            continue;
        }
        private = PRIVATE.contains(&bare).then_some(depth);
        let key = bare.split(['=', ':', ' ', '\t']).next().unwrap_or_default();
        let is_section = bare.starts_with('[') || (bare.ends_with(':') && !bare.contains(' '));
        let is_kept = NETWORK.contains(&&*key.to_lowercase())
            || is_section
            || bare.starts_with("iface ")
            || is_of_mtu(bare);
        if is_kept && private.is_none() {
            kept.push(line.to_owned());
        }
    }
    kept
}

/// Whether a command of a line sets an MTU.
fn is_of_mtu(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.any(|word| word == "mtu") && line.contains(" mtu ")
}

/// The lines of kernels, with the words that are asked for.
fn boot_loader(text: &str, wanted: &Wanted<'_>) -> Vec<String> {
    const KERNELS: [&str; 4] = ["linux", "linux16", "linuxefi", "options"];
    const VARIABLES: [&str; 4] = [
        "kernelopts",
        "GRUB_CMDLINE_LINUX",
        "GRUB_CMDLINE_LINUX_DEFAULT",
        "GRUB_DISABLE_RECOVERY",
    ];
    const OTHERS: [&str; 4] = ["single", "recovery", "rescue", "$kernelopts"];
    let is_wanted = |word: &&str| {
        let bare = word.trim_matches(['"', '\'']);
        let name = bare.split('=').next().unwrap_or(bare);
        wanted.parameters.contains(&name) || OTHERS.contains(&bare)
    };
    let kept = lines(text).filter_map(|line| {
        let line = line.trim_start();
        let first = line.split_whitespace().next()?;
        let (head, rest) = match line.split_once('=') {
            Some((name, rest)) if VARIABLES.contains(&name) => (format!("{name}="), rest),
            _ if KERNELS.contains(&first) => (format!("{first} "), &line[first.len()..]),
            // /etc/kernel/cmdline is the line itself.
            _ if !line.contains(['{', '}', '$', '(']) && !text.contains("menuentry") => {
                (String::new(), line)
            }
            _ => return None,
        };
        let words: Vec<&str> = rest.split_whitespace().filter(is_wanted).collect();
        let is_line = !head.is_empty() || !words.is_empty();
        is_line.then(|| format!("{head}{}", words.join(" ")))
    });
    kept.collect()
}

/// The tools that a script or unit runs, and lines of an MTU.
fn script(text: &str, wanted: &Wanted<'_>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for line in lines(text) {
        let words = line.split(|c: char| c.is_whitespace() || "\"'=;|&()".contains(c));
        let bare = words.map(|word| word.rsplit('/').next().unwrap_or(word));
        let tools = bare.filter(|word| {
            let as_module = word.replace('-', "_");
            wanted.tools.contains(word) || wanted.modules.contains(&&*as_module)
        });
        kept.extend(tools.map(|tool| format!("runs {tool}")));
        if is_of_mtu(line) {
            kept.push(format!("runs {}", mtu_words(line)));
        }
    }
    kept.dedup();
    kept
}

/// The words around an MTU that may be an interface: nothing else of the line is told.
fn mtu_words(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "mtu").unwrap_or(0);
    let from = at.saturating_sub(2);
    words[from..words.len().min(at + 2)].join(" ")
}

/// The programs that units and rules start, where they are files of the site's own.
fn programs(text: &str) -> Vec<String> {
    const OWN: [&str; 6] = [
        "/usr/local/",
        "/opt/",
        "/etc/",
        "/root/",
        "/usr/sbin/",
        "/usr/bin/",
    ];
    let starts = lines(text).filter(|line| {
        let line = line.trim_start();
        line.starts_with("Exec") || line.contains("RUN") || line.starts_with('/')
    });
    let words =
        starts.flat_map(|line| line.split(|c: char| c.is_whitespace() || "\"'=;|&,".contains(c)));
    // What stands before a path tells systemd how to start it (systemd.service(5)).
    let words = words.map(|word| word.trim_start_matches(['-', '+', '!', '@', ':']));
    let own = words.filter(|word| OWN.iter().any(|place| word.starts_with(place)));
    own.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> Wanted<'static> {
        Wanted {
            sysctl: vec!["vm.max_map_count"],
            modules: vec!["nvidia_peermem"],
            parameters: vec!["iommu"],
            tools: vec!["mlnx_qos"],
        }
    }

    #[test]
    fn passwords_stay_where_they_are() {
        let netplan = "network:\n  wifis:\n    wl0:\n      access-points:\n        \"home\":\n          password: \"secret\"\n  ethernets:\n    ens1:\n      mtu: 9000\n      auth:\n        password: hidden\n";
        let keyfile = "[connection]\nid=office\ninterface-name=ens1\n[802-1x]\npassword=secret\n[ethernet]\nmtu=9000\n";
        let unit = "[Service]\nEnvironment=TOKEN=secret\nExecStart=/usr/sbin/ip -k secret link set ens1 mtu 9000\nExecStart=/usr/bin/mlnx_qos -i ens1 --token secret\n";
        let grub = "menuentry 'x' {\nlinux /vmlinuz root=/dev/sda1 iommu=pt token=secret\n}\n";
        let all = [
            network(netplan, &wanted()),
            network(keyfile, &wanted()),
            script(unit, &wanted()),
            boot_loader(grub, &wanted()),
        ];
        assert_eq!(
            all,
            [
                vec!["network:", "  ethernets:", "    ens1:", "      mtu: 9000"],
                vec![
                    "[connection]",
                    "interface-name=ens1",
                    "[802-1x]",
                    "[ethernet]",
                    "mtu=9000"
                ],
                vec!["runs set ens1 mtu 9000", "runs mlnx_qos"],
                vec!["linux iommu=pt"],
            ]
        );
    }

    #[test]
    fn a_line_counts_in_each_form() {
        for (kept, expected) in [
            (
                sysctl("-vm/max_map_count=9\nkernel.x=1", &wanted()),
                "-vm/max_map_count=9",
            ),
            (
                modules("# no\nnvidia-peermem\nloop", &wanted()),
                "nvidia-peermem",
            ),
            (
                script("/sbin/modprobe nvidia-peermem", &wanted()),
                "runs nvidia-peermem",
            ),
            (
                boot_loader("GRUB_CMDLINE_LINUX=\"quiet iommu=pt\"", &wanted()),
                "GRUB_CMDLINE_LINUX=iommu=pt\"",
            ),
            (boot_loader("root=/dev/x iommu=pt", &wanted()), "iommu=pt"),
            (
                boot_loader("options root=x $kernelopts", &wanted()),
                "options $kernelopts",
            ),
            (
                network("    post-up ip link set ens1 mtu 9000", &wanted()),
                "    post-up ip link set ens1 mtu 9000",
            ),
        ] {
            assert_eq!(kept, [expected]);
        }
        let programs = programs("ExecStart=-/usr/local/sbin/qos.sh eth1\nUser=/etc/x");
        assert_eq!(programs, ["/usr/local/sbin/qos.sh"]);
    }
}
