//! Root with a user's environment loads no library that the user can write.

use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::place::{Scratch, doctor};
use crate::process::{Ended, start};

fn check(variable: (&str, &Path)) -> Ended {
    let mut command = Command::new(doctor());
    command.args(["facts", "--deadline", "10"]);
    command.env(variable.0, variable.1);
    start(command.stdin(Stdio::null())).ends()
}

#[test]
fn root_loads_no_library_that_a_user_can_write() {
    if !rustix::process::geteuid().is_root() {
        return crate::namespaces::say("libraries: needs root, who must not load them");
    }
    let scratch = Scratch::new("libraries");
    std::fs::set_permissions(&*scratch, std::fs::Permissions::from_mode(0o755)).unwrap();
    let dir = scratch.join("lib");
    std::fs::create_dir(&dir).unwrap();
    // No ELF file: that libibverbs cannot be loaded shows that it was opened.
    for name in ["libibverbs.so.1", "libnccl.so.2", "libcuda.so.1"] {
        std::fs::write(dir.join(name), "planted").unwrap();
    }
    let of = |uid| chown(&dir, Some(uid), None).unwrap();
    let refused = "no library is loaded that others than root can write";
    let verbs = |ended: &Ended| {
        let line = ended.out.lines().find(|line| line.contains("libibverbs ="));
        line.unwrap().to_owned()
    };
    let without = verbs(&check(("LD_LIBRARY_PATH", Path::new("/no/such"))));
    of(0);
    let trusted = check(("LD_LIBRARY_PATH", &dir));
    assert!(
        verbs(&trusted).contains("libibverbs = not-loadable"),
        "{trusted:?}"
    );
    assert!(!trusted.err.contains(refused), "{trusted:?}");
    of(54321);
    let link = scratch.join("link");
    symlink(&dir, &link).unwrap();
    for path in [&dir, &link] {
        let ended = check(("LD_LIBRARY_PATH", path));
        assert_eq!(verbs(&ended), without, "{ended:?}");
        assert!(ended.err.contains(refused), "{ended:?}");
        assert!(ended.err.contains("is owned by user 54321"), "{ended:?}");
        // It is listed, and a benchmark says why it does not load it.
        assert!(ended.out.contains("is not loaded as root"), "{ended:?}");
    }
    let plugin = dir.join("libevil.so");
    std::fs::write(&plugin, "planted").unwrap();
    for name in ["LD_PRELOAD", "CUDA_INJECTION64_PATH", "RDMAV_DRIVERS"] {
        let ended = check((name, &plugin));
        assert!(ended.err.contains(name), "{ended:?}");
    }
}
