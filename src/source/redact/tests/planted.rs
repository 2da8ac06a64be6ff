//! Secrets planted where each source speaks of people, hosts and projects: none is left, whatever it is called.

use super::*;
use crate::source::wire;

/// Where a secret word stands: a question, and a reply with `SECRET` in it.
const PLACES: &[&str] = &[
    r##"{"q":{"read":"/etc/hostname"},"text":"SECRET\n"}"##,
    r##"{"q":{"read":"/proc/sys/kernel/hostname"},"text":"SECRET\n"}"##,
    r##"{"q":{"read":"/proc/cmdline"},"text":"ro ip=10.0.0.2::10.0.0.1:255.0.0.0:SECRET:eth0:off quiet root=nfs:SECRET.corp:/x\n"}"##,
    r##"{"q":{"read":"/proc/cmdline"},"text":"ro systemd.hostname=SECRET hugepages=8\n"}"##,
    r##"{"q":{"read":"/proc/self/mountinfo"},"text":"7 2 0:5 / /mnt/SECRET rw - nfs4 SECRET:/export/SECRET rw,addr=SECRET\n"}"##,
    r##"{"q":{"read":"/proc/self/mountinfo"},"text":"7 2 0:5 / /jfs rw - fuse.juicefs SECRET:/vol rw\n"}"##,
    r##"{"q":{"read":"/proc/self/mountinfo"},"text":"7 2 0:5 / /weka rw - wekafs SECRET1,SECRET2/default rw\n"}"##,
    r##"{"q":{"read":"/proc/mounts"},"text":"//SECRET/share /mnt/share cifs rw,username=SECRET,srv=SECRET 0 0\n"}"##,
    r##"{"q":{"read":"/proc/mounts"},"text":"SECRET1:6789,SECRET2:6789:/ /ceph ceph rw,name=SECRET,mon_addr=SECRET:6789 0 0\n"}"##,
    r##"{"q":{"read":"/etc/fstab"},"text":"# for SECRET\nSECRET:/x /x nfs rw 0 0 # SECRET\n"}"##,
    r##"{"q":{"call":"kernel_log"},"value":[{"text":"NVRM: Xid (PCI:0000:c1:00): 31, pid=4711, name=SECRET, Ch 00000008"}]}"##,
    r##"{"q":{"call":"kernel_log"},"value":[{"text":"INFO: task SECRET:4711 blocked for more than 120 seconds."}]}"##,
    r##"{"q":{"call":"kernel_log"},"value":[{"text":"CPU: 3 PID: 4711 Comm: SECRET Tainted: P"}]}"##,
    r##"{"q":{"call":"kernel_log"},"value":[{"text":"Out of memory: Killed process 4711 (SECRET) total-vm:1kB"}]}"##,
    r##"{"q":{"call":"kernel_log"},"value":[{"text":"SECRET[4711]: segfault at 0 ip 0 sp 0 error 4 in libc.so"}]}"##,
    r##"{"q":{"call":"kernel_log"},"value":[{"text":"nfs: server SECRET not responding, timed out"}]}"##,
    r##"{"q":{"env":["NCCL_"]},"value":{"NCCL_DEBUG_FILE":"/scratch/SECRET/log.%h.%p.txt"}}"##,
    r##"{"q":{"env":["NCCL_"]},"value":{"NCCL_TOPO_FILE":"/lustre/projects/SECRET/topo.xml"}}"##,
    r##"{"q":{"env":["NCCL_"]},"value":{"NCCL_TOPO_DUMP_FILE":"/work2/SECRET/SECRET/x"}}"##,
    r##"{"q":{"env":["NCCL_"]},"value":{"NCCL_X":"s3://SECRET:SECRET/SECRET+x=@bucket/path"}}"##,
    r##"{"q":{"env":["NCCL_"]},"value":{"NCCL_X":"https://SECRET:SECRET@store.example:443/x?sig=SECRET&token=SECRET"}}"##,
    r##"{"q":{"read":"/etc/nccl.conf"},"text":"# SECRET did this\nNCCL_DEBUG=INFO\n"}"##,
    r##"{"q":{"read":"/etc/ucx/ucx.conf"},"text":"UCX_TLS=rc # SECRET\n  # SECRET\n"}"##,
    r##"{"q":{"read":"/etc/chrony/chrony.conf"},"text":"! SECRET\n# SECRET\nmakestep 1 3\n"}"##,
    r##"{"q":{"read":"/etc/infiniband/openib.conf"},"text":"ONBOOT=yes\n# ask SECRET\n"}"##,
    r##"{"q":{"call":"home_file","name":".openmpi/mca-params.conf"},"value":{"text":"btl = tcp # SECRET\n"}}"##,
    r##"{"q":{"run":["x"]},"text":"/home/SECRET/x is of SECRET\n"}"##,
    r##"{"q":{"statvfs":"/scratch/SECRET"},"value":{"size":1}}"##,
    r##"{"q":{"list":"/users/SECRET/run"},"names":["a"]}"##,
];

fn redacted(place: &str, secret: &str) -> String {
    let line = place
        .replacen('{', "{\"probe\":\"p\",", 1)
        .replace("SECRET", secret);
    let lines = [wire::parse_line(&line).unwrap()];
    let mut redactor = Redactor::new(Key::from_text("k"), "tree", &[]);
    redactor.learn(&lines);
    let [line] = lines;
    wire::write_line(&redactor.line(line)).unwrap()
}

proptest! {
    #[test]
    fn no_secret_is_left_wherever_it_stands(secret in "zq[a-z]{4,8}[0-9]{0,2}") {
        for place in PLACES {
            let written = redacted(place, &secret);
            prop_assert!(!written.contains(&secret), "{place}: {written}");
        }
    }
}

#[test]
fn what_judgement_reads_is_left() {
    for (place, kept) in [
        (PLACES[2], ":eth0:off quiet"),
        (PLACES[4], " nfs4 "),
        (
            PLACES[10],
            "Xid (PCI:0000:c1:00): 31, pid=4711, name=program-",
        ),
        (PLACES[11], ":4711 blocked for more than 120 seconds."),
        (PLACES[16], "log.%h.%p.txt"),
        (PLACES[17], "/lustre/projects/"),
        (PLACES[21], "NCCL_DEBUG=INFO"),
        (PLACES[22], "UCX_TLS=rc"),
        (PLACES[23], "makestep 1 3"),
    ] {
        let written = redacted(place, "zqsecret");
        assert!(written.contains(kept), "{kept} in {written}");
    }
    let same = r#"{"q":{"env":["NCCL_"]},"value":{"NCCL_NET_PLUGIN":"/usr/local/lib/libnccl-net.so","NCCL_X":"10 GB/s, a/b"}}"#;
    assert!(
        redacted(same, "").contains("/usr/local/lib/libnccl-net.so")
            && redacted(same, "").contains("10 GB/s, a/b")
    );
}
