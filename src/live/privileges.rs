//! What a probe's process gives up before it asks: privileges that none of its questions needs, and files that whoever started the doctor left open.

use std::io;

use rustix::thread::{CapabilitySet, capabilities, set_capabilities, set_no_new_privs};

/// Files and processes of others, the kernel's log, the packet filter and a transceiver's memory, registered memory; and what a job may have that
/// listens on a low port, which is asked about (capabilities(7)).
const ASKING: CapabilitySet = CapabilitySet::DAC_READ_SEARCH
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::SYSLOG)
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// Probes that an administrator alone gets whole answers to: a PCI function's configuration beyond its first 64 bytes (`pci_read_config`,
/// drivers/pci/pci-sysfs.c), NVIDIA's driver, and the kernel stack of a process (`proc_pid_stack`, fs/proc/base.c).
const ADMINISTRATORS: [&str; 4] = ["pcie", "nvml", "cuda", "ranks"];

/// Gives up, for this process and all that it starts, what no probe needs; programs that it runs gain nothing by their set-user-ID bit.
///
/// To be called before the process opens a file or starts a thread.
///
/// # Errors
///
/// The kernel refuses it; the probe then asks with what it was given.
pub(super) fn give_up() -> io::Result<()> {
    set_no_new_privs(true)?;
    let mut sets = capabilities(None)?;
    let kept = ASKING.union(CapabilitySet::SYS_ADMIN);
    sets.permitted &= kept;
    sets.effective &= kept;
    sets.inheritable &= kept;
    set_capabilities(None, sets)?;
    close_inherited();
    Ok(())
}

/// Uses, from now on in this thread, only what this probe needs of what the process kept.
///
/// # Errors
///
/// The kernel refuses it.
pub(super) fn narrow(probe: &str) -> io::Result<()> {
    let mut sets = capabilities(None)?;
    sets.effective = sets.permitted & ASKING;
    if ADMINISTRATORS.contains(&probe) {
        sets.effective |= sets.permitted & CapabilitySet::SYS_ADMIN;
    }
    Ok(set_capabilities(None, sets)?)
}

/// Closes all but standard input, output and error. A kernel before 5.9 leaves them open.
fn close_inherited() {
    #[expect(unsafe_code, reason = "rustix has no close_range")]
    // SAFETY: three numbers; nothing in this process owns a descriptor yet.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_keeps_what_it_needs_of_what_there_was() {
        // Capabilities are a thread's own.
        let (before, of_ports, of_pcie) = std::thread::spawn(|| {
            let before = capabilities(None).unwrap();
            narrow("device").unwrap();
            let of_ports = capabilities(None).unwrap();
            narrow("pcie").unwrap();
            (before, of_ports, capabilities(None).unwrap())
        })
        .join()
        .unwrap();
        assert_eq!(of_ports.permitted, before.permitted);
        assert_eq!(of_ports.effective, before.permitted & ASKING);
        let administrator = CapabilitySet::SYS_ADMIN & before.permitted;
        assert_eq!(
            of_pcie.effective,
            (before.permitted & ASKING) | administrator
        );
    }
}
