use super::parse::*;
use super::*;
use crate::fact::mount::MountTransport;
use crate::probe::testing::{known, run};

/// As NFS, Lustre and BeeGFS clients have them; the second NFS line is a bind mount of the first.
const MOUNTINFO: &str = "29 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
    77 29 0:50 / /mnt/data rw,relatime shared:9 - nfs4 10.0.0.9:/export rw,vers=4.2,rsize=1048576,wsize=65536,hard,proto=tcp,timeo=600,addr=10.0.0.9\n\
    78 29 0:50 /sub /mnt/two\\040words rw - nfs4 10.0.0.9:/export rw,proto=tcp\n\
    79 29 0:51 / /lustre rw - lustre 10.0.0.1@o2ib:10.0.0.2@o2ib:/scratch rw,flock\n\
    80 29 0:52 / /mnt/beegfs rw - beegfs beegfs_nodev rw,cfgFile=/etc/beegfs/beegfs-client.conf\n";

#[test]
fn mounts_of_other_machines() {
    let found = mounts(MOUNTINFO).unwrap();
    let names: Vec<(&str, &str)> = found.iter().map(|m| (&*m.point, m.kind)).collect();
    assert_eq!(
        names,
        [
            ("/mnt/data", "nfs"),
            ("/lustre", "lustre"),
            ("/mnt/beegfs", "beegfs")
        ]
    );
    assert_eq!(transport(&found[0]), Ok(MountTransport::Tcp));
    assert_eq!(found[0].option("hard"), Some(""));
    assert!(mounts("garbage\n").is_err());
    assert_eq!(mounts("").unwrap(), []);
}

#[test]
fn servers_of_beegfs() {
    let text = "meta01 [ID: 1]\n   Root: <yes>\n   Connections: TCP: 1 (10.0.0.1:8005 [fallback route]); \nmeta02 [ID: 2]\n   Connections: RDMA: 4 (10.0.0.2:8005); \nmeta03 [ID: 3]\n   Connections: <none>\n";
    let found = connections(text).unwrap();
    assert_eq!(
        found,
        Connections {
            by_tcp: vec![(1, Some([10, 0, 0, 1].into()))],
            rdma: 4,
            fallback_routes: 1
        }
    );
    assert_eq!(found.transport(), MountTransport::Mixed);
    assert!(connections("   Connections: TCP: x;\n").is_err());
}

#[test]
fn fstab_and_nids() {
    let fstab = "# s:/x /x nfs rdma 0 0\ns:/a /mnt/data nfs4 rw,proto=rdma,port=20049 0 0\ns:/b /b nfs rw,rdma 0 0\ns:/c /c nfs rw 0 0\n";
    assert_eq!(fstab_rdma(fstab), ["/mnt/data", "/b"]);
    assert_eq!(is_tcp_nid("10.0.0.1@tcp1\n"), Ok(true));
    assert_eq!(is_tcp_nid("10.0.0.1@o2ib"), Ok(false));
    assert_eq!(is_tcp_nid("10.0.0.1@o2ib4"), Ok(false));
    assert!(is_tcp_nid("<none>").is_err());
}

#[test]
fn each_mount_has_its_facts() {
    let mountinfo = serde_json::to_string(MOUNTINFO).unwrap();
    let mountinfo = format!(r#"{{"q":{{"read":"/proc/self/mountinfo"}},"text":{mountinfo}}}"#);
    let (facts, node) = run(
        &PROBE,
        &[
            &mountinfo,
            r#"{"q":{"read":"/etc/fstab"},"text":"s:/a /mnt/data nfs4 rw,proto=rdma 0 0\n"}"#,
            r#"{"q":{"list":"/proc/fs/beegfs"},"names":["1A2-65F-n"]}"#,
            r#"{"q":{"read":"/proc/fs/beegfs/1A2-65F-n/config"},"text":"connUseRDMA = 1\nconnRDMABufSize = 6000\nconnRDMABufNum = 70\n"}"#,
            r#"{"q":{"read":"/proc/fs/beegfs/1A2-65F-n/storage_nodes"},"text":"s [ID: 1]\n   Connections: TCP: 2 (10.0.0.3:8003); \n"}"#,
            r#"{"q":{"read":"/proc/fs/beegfs/1A2-65F-n/meta_nodes"},"text":"m [ID: 1]\n   Connections: RDMA: 2 (10.0.0.3:8005); \n"}"#,
            r#"{"q":{"list":"/sys/fs/lustre/osc"},"names":["scratch-OST0000-osc-ffff8881"]}"#,
            r#"{"q":{"read":"/sys/fs/lustre/osc/scratch-OST0000-osc-ffff8881/ost_conn_uuid"},"text":"10.0.0.1@tcp\n"}"#,
            r#"{"q":{"list":"/sys/fs/lustre/mdc"},"names":[]}"#,
            r#"{"q":{"list":"/sys/class/nvme"},"names":["nvme0","nvme1"]}"#,
            r#"{"q":{"read":"/sys/class/nvme/nvme0/transport"},"text":"pcie\n"}"#,
            r#"{"q":{"read":"/sys/class/nvme/nvme1/transport"},"text":"rdma\n"}"#,
            r#"{"q":{"read":"/sys/class/nvme/nvme1/state"},"text":"connecting\n"}"#,
            r#"{"q":{"list":"/sys/class/iscsi_host"},"names":["host7"]}"#,
            r#"{"q":{"list":"/sys/class/iscsi_host/host7/device"},"names":["power","session1","sessions"]}"#,
            r#"{"q":{"read":"/sys/class/scsi_host/host7/proc_name"},"text":"iscsi_tcp\n"}"#,
            r#"{"q":{"read":"/sys/class/iscsi_session/session1/state"},"text":"LOGGED_IN\n"}"#,
        ],
    );
    let transport = |name| known(&facts, Subject::Mount, name, mount::TRANSPORT);
    assert_eq!(transport("/mnt/data"), Some(MountTransport::Tcp));
    assert_eq!(transport("/lustre"), Some(MountTransport::Tcp));
    assert_eq!(transport("/mnt/beegfs"), Some(MountTransport::Mixed));
    assert_eq!(transport("nvme1"), Some(MountTransport::Rdma));
    let wanted = |name| known(&facts, Subject::Mount, name, mount::RDMA_WANTED);
    assert_eq!(wanted("/mnt/data"), Some(true));
    assert_eq!(wanted("/lustre"), Some(true));
    let pages = known(
        &facts,
        Subject::Mount,
        "/mnt/beegfs",
        mount::BUFFER_OF_PAGES,
    );
    assert_eq!(pages, Some(false));
    assert_eq!(transport("session1"), Some(MountTransport::Tcp));
    let state = known(&facts, Subject::Mount, "session1", mount::STATE);
    assert_eq!(state.as_deref(), Some("LOGGED_IN"));
    assert_eq!(facts.below(node, Subject::Mount).count(), 5);
    assert!(facts.members(Subject::Mount, node).is_ok());
}

#[test]
fn networks_that_stay_on_tcp() {
    let text = "s1 [ID: 1]\n   Connections: TCP: 4 (10.0.9.3:8003); \ns2 [ID: 2]\n   Connections: TCP: 1 (10.0.1.3:8003 [fallback route]); RDMA: 2 (10.0.0.3:8003); \ns3 [ID: 3]\n   Connections: TCP: 2 ([fd00::3]:8003); \n";
    let found = connections(text).unwrap();
    assert_eq!((found.tcp(), found.rdma), (7, 2));
    let nets = |text: &str| network(text).map(|net| found.tcp_outside(&[net]));
    assert_eq!(nets("10.0.9.0/24"), Ok(3));
    assert_eq!(nets("10.0.0.0/8"), Ok(2));
    assert_eq!(nets("0.0.0.0/0"), Ok(2));
    assert_eq!(nets("10.0.9.3"), Ok(3));
    for bad in ["10.0.9.0/33", "fd00::/64", "ib0", "", "10.0.9/24"] {
        assert!(nets(bad).is_err(), "{bad}");
    }
    assert_eq!(found.tcp_outside(&[]), 7);
}

#[test]
fn interfaces_of_lnet() {
    let text = "nid                      status alive refs peer  rtr   max    tx   min\n0@lo                       up     0     2    0    0     0     0     0\n10.0.0.21@o2ib           down     0     4   63    0  1024  1024   900\n10.0.1.21@o2ib3            up    -1     4   63    0  1024  1024   900\n10.0.8.21@tcp            down     0     4    8    0   256   256   200\n";
    let found = rdma_interfaces(text).unwrap();
    let found: Vec<(&str, bool)> = found.iter().map(|(nid, up)| (&**nid, *up)).collect();
    assert_eq!(
        found,
        [("10.0.0.21@o2ib", false), ("10.0.1.21@o2ib3", true)]
    );
    assert!(rdma_interfaces("10.0.0.1@o2ib strange 1\n").is_err());
    assert_eq!(rdma_interfaces(""), Ok(Vec::new()));
}

#[test]
fn what_beegfs_is_told() {
    let mountinfo = r#"{"q":{"read":"/proc/self/mountinfo"},"text":"80 29 0:52 / /b rw - beegfs beegfs_nodev rw,cfgFile=/etc/beegfs/c.conf\n"}"#;
    let told = |config: &str, more: &[&str]| {
        let config = format!(
            r#"{{"q":{{"read":"/proc/fs/beegfs/1-n/config"}},"text":"connUseRDMA = 1\nconnRDMABufSize = 1048576\nconnRDMABufNum = 70\n{config}"}}"#
        );
        let mut lines = vec![
            mountinfo,
            r#"{"q":{"list":"/proc/fs/beegfs"},"names":["1-n"]}"#,
            &config,
            r#"{"q":{"read":"/proc/fs/beegfs/1-n/storage_nodes"},"text":"   Connections: TCP: 2 (10.0.9.3:8003); \n"}"#,
            r#"{"q":{"read":"/proc/fs/beegfs/1-n/meta_nodes"},"text":"   Connections: TCP: 1 (10.0.0.3:8005); \n"}"#,
        ];
        lines.extend(more);
        run(&PROBE, &lines).0
    };
    let list = |name: &str, text: &str| {
        format!(r#"{{"q":{{"read":"/etc/beegfs/{name}"}},"text":"{text}"}}"#)
    };
    // A client before the settings: nothing is limited.
    let facts = told("", &[]);
    let number = |facts: &Facts, key| known(facts, Subject::Mount, "/b", key);
    let holds = |facts: &Facts, key| known(facts, Subject::Mount, "/b", key);
    let named = |facts: &Facts, key| {
        known(facts, Subject::Mount, "/b", key).map(|t: Arc<[Arc<str>]>| t.join(" "))
    };
    assert_eq!(number(&facts, mount::TCP_UNASKED), Some(3));
    assert_eq!(number(&facts, mount::STORAGE_TCP), Some(2));
    assert_eq!(number(&facts, mount::META_TCP), Some(1));
    assert_eq!(holds(&facts, mount::LISTS_THERE), Some(true));

    let facts = told(
        r"connInterfacesFile = /etc/beegfs/i\nconnTcpOnlyFilterFile = /etc/beegfs/t\n",
        &[
            &list("i", r" ib0 \n#eth0\n\nib1\n"),
            &list("t", r"10.0.9.0/24\n"),
        ],
    );
    assert_eq!(number(&facts, mount::TCP_UNASKED), Some(1));

    // Not there, not to be read, and of a form that is not known.
    let absent = [
        r#"{"q":{"read":"/etc/beegfs/i"},"errno":"ENOENT"}"#,
        r#"{"q":{"list":"/etc/beegfs"},"names":["c.conf"]}"#,
    ];
    let facts = told(r"connInterfacesFile = /etc/beegfs/i\n", &absent);
    assert_eq!(holds(&facts, mount::LISTS_THERE), Some(false));
    assert_eq!(
        named(&facts, mount::LISTS_ABSENT).as_deref(),
        Some("/etc/beegfs/i")
    );
    let facts = told(r"connInterfacesFile = /mnt/b/i\n", &[]);
    assert_eq!(holds(&facts, mount::LISTS_THERE), None);
    let facts = told(
        r"connTcpOnlyFilterFile = /etc/beegfs/t\n",
        &[&list("t", r"fd00::/64\n")],
    );
    assert_eq!(number(&facts, mount::TCP_UNASKED), None);
}
