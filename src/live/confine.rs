//! A process that may ask, and change nothing: what NVIDIA's libraries would do for a program that is in earnest, they cannot here.
//!
//! If a module is not loaded or a device file is missing, these libraries run nvidia-modprobe, which is root's, to load and to make it.
//! The kernel refuses that to a process that has given it up.

use std::io;

/// `AUDIT_ARCH_*` (linux/audit.h): the ELF machine, 64 bits, little endian.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: Option<u32> = Some(0xC000_003E);
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: Option<u32> = Some(0xC000_00B7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCHITECTURE: Option<u32> = None;

/// Running programs, loading modules, creating device files, changing a file's owner or mode.
const FORBIDDEN: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_mknodat,
    libc::SYS_fchmodat,
    libc::SYS_fchownat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
];

/// The first number of the other interface of x86-64 (x32), which has every call once more.
const OTHER_INTERFACE: u32 = 0x4000_0000;

/// Where `struct seccomp_data` (linux/seccomp.h) has the call's number and the architecture.
const NUMBER: u32 = 0;
const MACHINE: u32 = 4;

/// Gives up, for this thread and those that it starts, running programs, loading modules, making device files. Such a call fails with EPERM.
///
/// # Errors
///
/// The kernel has no seccomp filters (before Linux 3.5, or left out), or this is another processor than x86-64 and 64-bit ARM.
pub(super) fn confine() -> io::Result<()> {
    let Some(architecture) = ARCHITECTURE else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let mut program = filter(architecture);
    let length = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let code = libc::sock_fprog {
        len: length,
        filter: program.as_mut_ptr(),
    };
    #[expect(unsafe_code, reason = "rustix has no seccomp filters")]
    // SAFETY: the first call takes numbers only; the second reads `length` instructions, which live until it returns.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const code,
            ) != 0
    };
    match refused {
        true => Err(io::Error::last_os_error()),
        false => Ok(()),
    }
}

fn filter(architecture: u32) -> Vec<libc::sock_filter> {
    let step = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter {
        // All codes are below 2^16.
        code: code as u16,
        jt,
        jf,
        k,
    };
    let load = |at: u32| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at, 0, 0);
    let refuse = || {
        let errno = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
        step(libc::BPF_RET | libc::BPF_K, errno, 0, 0)
    };
    let mut program = vec![
        load(MACHINE),
        step(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            architecture,
            1,
            0,
        ),
        refuse(),
        load(NUMBER),
        step(
            libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K,
            OTHER_INTERFACE,
            0,
            1,
        ),
        refuse(),
    ];
    for call in FORBIDDEN {
        // The numbers of system calls are small and positive.
        let number = u32::try_from(*call).unwrap_or(u32::MAX);
        program.push(step(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            number,
            0,
            1,
        ));
        program.push(refuse());
    }
    program.push(step(
        libc::BPF_RET | libc::BPF_K,
        libc::SECCOMP_RET_ALLOW,
        0,
        0,
    ));
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "tries what the thread has given up"
    )]
    fn a_confined_thread_runs_no_program_and_makes_no_device_file() {
        let tried = std::thread::spawn(|| {
            confine().unwrap();
            let ran = std::process::Command::new("/bin/true").status();
            let path =
                std::ffi::CString::new(format!("/tmp/rdma-doctor-confined-{}", std::process::id()))
                    .unwrap();
            // SAFETY: the path is a C string.
            #[expect(unsafe_code, reason = "the standard library makes no device files")]
            let made = unsafe { libc::mknod(path.as_ptr(), libc::S_IFIFO | 0o600, 0) };
            let made = (made, io::Error::last_os_error().raw_os_error());
            let read = std::fs::read("/proc/self/comm");
            (ran.map_err(|e| e.raw_os_error()), made, read.is_ok())
        });
        let (ran, made, read) = tried.join().unwrap();
        assert_eq!(ran.err(), Some(Some(libc::EPERM)));
        assert_eq!(made, (-1, Some(libc::EPERM)));
        assert!(read, "files are read as before");
        // Other threads go on as they were.
        assert!(
            std::process::Command::new("/bin/true")
                .status()
                .is_ok_and(|status| status.success())
        );
    }
}
