//! Situations written down before their reader: what the files of a machine say, what holds now, and what a reboot makes of it.

use serde_json::json;

use super::*;
use crate::probe::testing;

/// What holds now, and the files.
#[derive(Default)]
struct Machine {
    answers: Vec<String>,
    files: BTreeMap<&'static str, Vec<&'static str>>,
    denied: Vec<&'static str>,
    interfaces: Vec<&'static str>,
}

impl Machine {
    fn interface(mut self, name: &'static str, mac: &str, mtu: u64) -> Self {
        let directory = format!("/sys/class/net/{name}");
        self.interfaces.push(name);
        self.reads(&format!("{directory}/address"), mac)
            .reads(&format!("{directory}/mtu"), &mtu.to_string())
            .links(&format!("{directory}/device"))
            .refuses(json!({ "link": format!("{directory}/master") }))
    }

    fn reads(mut self, path: &str, text: &str) -> Self {
        let line = json!({ "q": { "read": path }, "text": format!("{text}\n") });
        self.answers.push(line.to_string());
        self
    }

    fn links(mut self, path: &str) -> Self {
        let line = json!({ "q": { "link": path }, "text": "../../../0000:17:00.0" });
        self.answers.push(line.to_string());
        self
    }

    fn lists(mut self, path: &str, names: &[&str]) -> Self {
        let line = json!({ "q": { "list": path }, "names": names });
        self.answers.push(line.to_string());
        self
    }

    fn refuses(mut self, question: serde_json::Value) -> Self {
        let line = json!({ "q": question, "errno": "ENOENT" });
        self.answers.push(line.to_string());
        self
    }

    fn file(mut self, path: &'static str, text: &'static str) -> Self {
        self.files.insert(path, text.lines().collect());
        self
    }

    fn denied(mut self, path: &'static str) -> Self {
        self.denied.push(path);
        self
    }

    /// Each setting that does not stay: its name, what it is, what it becomes, and the file.
    fn says(self) -> Vec<String> {
        let names = self.interfaces.clone();
        let machine = self.lists("/sys/class/net", &names);
        let Question::Call(call) = question() else {
            panic!("no call")
        };
        let mut asked = json!({ "call": "boot_settings" });
        for name in ["sysctl", "modules", "parameters", "tools"] {
            asked[name] = json!(call.text(name));
        }
        let value = json!({ "files": machine.files, "denied": machine.denied });
        let mut lines = machine.answers;
        lines.push(json!({ "q": asked, "value": value }).to_string());
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let (facts, _) = testing::run(&PROBE, &lines);
        let text = |id, key| facts.known(id, key).unwrap();
        let all = facts.all(Subject::BootSetting);
        let gone = all.filter(|id| {
            let after = facts.known(*id, boot_setting::AFTER);
            after.is_some_and(|after| after != AfterBoot::Stays)
        });
        gone.map(|id| {
            let after = facts.known(id, boot_setting::AFTER).unwrap();
            let (now, next) = (text(id, boot_setting::NOW), text(id, boot_setting::NEXT));
            let file = text(id, boot_setting::FILE);
            let after = after.word();
            format!("{}: {now}, {next} ({after}, {file})", facts.name(id))
        })
        .collect()
    }
}

const MAC: &str = "b8:ce:f6:00:00:01";

fn rail(mtu: u64) -> Machine {
    Machine::default().interface("ens1np0", MAC, mtu)
}

#[track_caller]
fn lost(machine: Machine, expected: &str) {
    assert_eq!(machine.says(), [expected]);
}

#[track_caller]
fn quiet(machine: Machine) {
    assert_eq!(machine.says(), [""; 0]);
}

#[test]
fn a_machine_that_no_init_starts_reads_none_of_these_files() {
    let by_name = "network:\n  ethernets:\n    ens1np0:\n      dhcp4: false";
    let netplan = "/etc/netplan/50.yaml";
    let said = "MTU of ens1np0: 9000, 1500 (lost, /etc/netplan/50.yaml)";
    let named = |init: &str| {
        rail(9000)
            .file(netplan, by_name)
            .reads("/proc/1/comm", init)
    };
    lost(named("systemd"), said);
    lost(named("init"), said);
    quiet(named("firecracker"));
}

#[test]
fn an_mtu_that_no_file_sets_is_lost() {
    let netplan = "/etc/netplan/50-cloud-init.yaml";
    let by_name =
        "network:\n  ethernets:\n    ens1np0:\n      dhcp4: false\n    eth1:\n      mtu: 9000";
    let said = "MTU of ens1np0: 9000, 1500 (lost, /etc/netplan/50-cloud-init.yaml)";
    lost(rail(9000).file(netplan, by_name), said);
    let keyfile = "/etc/NetworkManager/system-connections/rail.nmconnection";
    let rail0 = "[connection]\ninterface-name=ens1np0\n[ethernet]\n[ipv4]\nmethod=manual";
    lost(
        rail(9000).file(keyfile, rail0),
        "MTU of ens1np0: 9000, 1500 (lost, /etc/NetworkManager/system-connections/rail.nmconnection)",
    );
    let ifcfg = "/etc/sysconfig/network-scripts/ifcfg-ens1np0";
    lost(
        rail(4200).file(ifcfg, "DEVICE=ens1np0\nBOOTPROTO=none"),
        "MTU of ens1np0: 4200, 1500 (lost, /etc/sysconfig/network-scripts/ifcfg-ens1np0)",
    );
    let network = "[Match]\nName=ens*\n[Network]\nDHCP=no";
    lost(
        rail(9000)
            .file("/etc/systemd/network/20-rails.network", network)
            .file(
                "/usr/lib/systemd/network/99-default.link",
                "[Match]\nOriginalName=*",
            ),
        "MTU of ens1np0: 9000, 1500 (lost, /etc/systemd/network/20-rails.network)",
    );
    let stanza = "auto ens1np0\niface ens1np0 inet static\niface eth1 inet static\n    mtu 9000";
    lost(
        rail(9000).file("/etc/network/interfaces", stanza),
        "MTU of ens1np0: 9000, 1500 (lost, /etc/network/interfaces)",
    );
}

#[test]
fn an_mtu_that_a_file_sets_stays() {
    let netplan = "network:\n  ethernets:\n    rail0:\n      match:\n        macaddress: \"B8:CE:F6:00:00:01\"\n      set-name: ens1np0\n      mtu: 9000 # jumbo";
    quiet(rail(9000).file("/etc/netplan/01.yaml", netplan));
    // A later file adds to an earlier one.
    let first = "network:\n  ethernets:\n    ens1np0:\n      dhcp4: no";
    let second = "network:\n  ethernets:\n    ens1np0:\n      mtu: 9000";
    quiet(
        rail(9000)
            .file("/etc/netplan/01.yaml", first)
            .file("/etc/netplan/99-mtu.yaml", second),
    );
    let network = "[Match]\nName=ens1np0\n[Network]\nDHCP=no";
    let link = "[Match]\nMACAddress=b8:ce:f6:00:00:01\n[Link]\nMTUBytes=9000";
    quiet(
        rail(9000)
            .file("/etc/systemd/network/20.network", network)
            .file("/etc/systemd/network/10.link", link),
    );
    let stanza = "iface ens1np0 inet static\n    post-up ip link set ens1np0 mtu 9000";
    quiet(rail(9000).file("/etc/network/interfaces", stanza));
    let ifcfg = "/etc/sysconfig/network/ifcfg-ens1np0";
    quiet(rail(9000).file(ifcfg, "BOOTPROTO='static'\nMTU='9000'"));
}

#[test]
fn an_mtu_that_something_else_may_set_is_left_open() {
    let netplan = "/etc/netplan/01.yaml";
    let plain = "network:\n  ethernets:\n    ens1np0:\n      dhcp4: false";
    let server = "network:\n  ethernets:\n    ens1np0:\n      dhcp4: true";
    quiet(rail(9000).file(netplan, server));
    quiet(
        rail(9000)
            .file(netplan, plain)
            .file("/etc/rc.local", "runs set ens1np0 mtu 9000"),
    );
    quiet(
        rail(9000)
            .file(netplan, plain)
            .file("/usr/local/sbin/rails", "runs dev $dev mtu 9000"),
    );
    // Written where nobody but root may read, and for another interface.
    quiet(
        rail(9000)
            .file(netplan, plain)
            .denied("/etc/netplan/60-rails.yaml"),
    );
    quiet(rail(9000).file(
        netplan,
        "network:\n  ethernets:\n    eth9:\n      dhcp4: false",
    ));
    quiet(rail(1500).file(netplan, plain));
    // A VLAN takes its parent's.
    let mut vlan = rail(9000).file(netplan, "network:\n  vlans:\n    ens1np0:\n      id: 7");
    let device = json!({ "link": "/sys/class/net/ens1np0/device" });
    vlan.answers
        .retain(|line| !line.contains("net/ens1np0/device"));
    quiet(vlan.refuses(device));
    // Two managers that disagree.
    let two = rail(1500).file(
        netplan,
        "network:\n  ethernets:\n    ens1np0:\n      mtu: 9000",
    );
    quiet(two.file("/etc/sysconfig/network-scripts/ifcfg-ens1np0", "MTU=4200"));
}

#[test]
fn an_mtu_that_is_written_and_not_in_force_changes() {
    let netplan = "network:\n  version: 2\n  ethernets:\n    ens1np0:\n      mtu: 9000";
    lost(
        rail(1500).file("/etc/netplan/01.yaml", netplan),
        "MTU of ens1np0: 1500, 9000 (changes, /etc/netplan/01.yaml)",
    );
}

#[test]
fn parameters_of_the_kernel_are_held_against_the_files_that_set_them() {
    let maps = "/proc/sys/vm/max_map_count";
    let rmem = "/proc/sys/net/core/rmem_max";
    let now = || {
        Machine::default()
            .reads(maps, "262144")
            .reads(rmem, "212992")
    };
    lost(
        now(),
        "vm.max_map_count: 262144, 65530 (lost, /etc/sysctl.d)",
    );
    // Newer kernels have more of their own.
    quiet(Machine::default().reads(rmem, "4194304"));
    lost(
        Machine::default().reads(rmem, "16777216"),
        "net.core.rmem_max: 16777216, 212992 or 4194304 (lost, /etc/sysctl.d)",
    );
    quiet(now().file("/etc/sysctl.d/90-maps.conf", "vm.max_map_count = 262144"));
    quiet(now().file("/etc/tuned/active_profile", "throughput-performance"));
    quiet(now().file("/usr/local/sbin/tune.sh", "runs sysctl"));
    quiet(now().denied("/etc/sysctl.d/90-maps.conf"));
    let set = || now().file("/etc/sysctl.d/90-maps.conf", "vm/max_map_count=262144");
    lost(
        set().file("/etc/sysctl.d/95-net.conf", "-net.core.rmem_max=268435456"),
        "net.core.rmem_max: 212992, 268435456 (changes, /etc/sysctl.d/95-net.conf)",
    );
    // The last file counts, and one in /etc in place of one of its name elsewhere.
    quiet(
        set()
            .file("/usr/lib/sysctl.d/95-net.conf", "net.core.rmem_max=1")
            .file("/etc/sysctl.d/95-net.conf", ""),
    );
    quiet(
        set()
            .file("/usr/lib/sysctl.d/10-net.conf", "net.core.rmem_max=1")
            .file("/etc/sysctl.conf", "net.core.rmem_max=212992"),
    );
}

#[test]
fn the_command_line_is_held_against_the_boot_loaders() {
    let grub = "/boot/grub/grub.cfg";
    let booted = |words: &str| {
        let line = format!("BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro {words}");
        Machine::default().reads("/proc/cmdline", &line)
    };
    lost(
        booted("iommu=pt").file(grub, "linux\nlinux single"),
        "kernel parameter iommu=pt: set, not (lost, /boot/grub/grub.cfg)",
    );
    quiet(booted("iommu=pt").file(grub, "linux iommu=pt\nlinux single"));
    lost(
        booted("quiet").file(grub, "linux iommu=pt"),
        "kernel parameter iommu=pt: not set, set (changes, /boot/grub/grub.cfg)",
    );
    lost(
        booted("quiet")
            .file(grub, "linux")
            .file("/etc/default/grub", "GRUB_CMDLINE_LINUX=\"iommu=pt\""),
        "kernel parameter iommu=pt: not set, not (unmade, /etc/default/grub)",
    );
    // Entries that disagree, and variables of entries.
    let entries = |first, second| {
        let entry = booted("iommu=pt").file("/boot/loader/entries/a-6.1.conf", first);
        entry.file("/boot/loader/entries/a-5.9.conf", second)
    };
    quiet(entries("options iommu=pt", "options"));
    lost(
        entries("options", "options"),
        "kernel parameter iommu=pt: set, not (lost, /boot/loader/entries/a-5.9.conf)",
    );
    let variable = entries("options $kernelopts", "options $kernelopts");
    quiet(variable.file("/boot/grub2/grubenv", "kernelopts=iommu=pt"));
    // Not booted from this disk, or the files are not to be read.
    let line = "BOOT_IMAGE=http://10.0.0.1/vmlinuz iommu=pt";
    let from_network = Machine::default().reads("/proc/cmdline", line);
    quiet(from_network.file(grub, "linux"));
    quiet(
        booted("iommu=pt")
            .file("/etc/default/grub", "")
            .denied(grub),
    );
}

#[test]
fn a_module_that_nothing_loads_is_lost() {
    let loaded = || {
        Machine::default()
            .lists("/sys/module", &["nvidia", "nvidia_peermem"])
            .lists("/run", &["lock"])
            .lists("/run/nvidia", &[])
    };
    lost(
        loaded(),
        "module nvidia_peermem: loaded, not (lost, /etc/modules-load.d)",
    );
    quiet(loaded().file("/etc/modules-load.d/gpu.conf", "nvidia-peermem"));
    quiet(loaded().file(
        "/etc/modprobe.d/gpu.conf",
        "softdep nvidia post: nvidia-peermem",
    ));
    quiet(loaded().file("/etc/systemd/system/peermem.service", "runs nvidia-peermem"));
    lost(
        loaded().file("/etc/modprobe.d/gpu.conf", "blacklist nvidia_peermem"),
        "module nvidia_peermem: loaded, not (lost, /etc/modules-load.d)",
    );
    quiet(loaded().denied("/etc/cron.d/gpu"));
    // The container that brought the driver loads its modules again.
    let of_container = Machine::default()
        .lists("/sys/module", &["nvidia_peermem"])
        .lists("/run", &["nvidia"])
        .lists("/run/nvidia", &["driver"]);
    quiet(of_container);
}

#[test]
fn who_sets_priorities_at_boot_is_known() {
    let facts_of = |files: serde_json::Value| {
        let Question::Call(call) = question() else {
            panic!("no call")
        };
        let mut asked = json!({ "call": "boot_settings" });
        for name in ["sysctl", "modules", "parameters", "tools"] {
            asked[name] = json!(call.text(name));
        }
        let line = json!({ "q": asked, "value": { "files": files, "denied": [] } });
        let (facts, node) = testing::run(&PROBE, &[&line.to_string()]);
        facts.known(node, node::QOS_KEPT)
    };
    let unit = json!({ "/etc/systemd/system/qos.service": ["runs mlnx_qos", "runs cma_roce_tos"] });
    assert_eq!(facts_of(unit), Some(true));
    assert_eq!(facts_of(json!({})), Some(false));
}
