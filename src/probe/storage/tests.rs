use super::super::testing::{known, run};
use super::parse::*;
use super::*;

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
            tcp: 1,
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
    let size = known(&facts, Subject::Mount, "/mnt/data", mount::IO_SIZE);
    assert_eq!(size, Some(Bytes(65536)));
    assert_eq!(facts.below(node, Subject::Mount).count(), 4);
    assert!(facts.members(Subject::Mount, node).is_ok());
}
