//! An open device, and what it reports about itself and its ports.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use rdma_sys::{_compat_ibv_port_attr, ibv_context, ibv_device, ibv_port_attr};
use rustix::fs::{Mode, OFlags};
use serde_json::{Value, json};

use super::{DeviceList, last_error, status};
use crate::live::c_text::c_text;
use crate::source::{Errno, Refusal};

functions! {
    ibv_open_device(device: *mut ibv_device) -> *mut ibv_context;
    ibv_close_device(context: *mut ibv_context) -> c_int;
    ibv_query_port(context: *mut ibv_context, port: u8, attr: *mut _compat_ibv_port_attr) -> c_int;
}

/// The result of opening the device's node.
///
/// libibverbs goes on to /dev/char if the node refuses, and where that has no links (containers, hosts without udev) it ends
/// with `ENOENT` whatever the cause was.
fn node_refusal(device: *mut ibv_device) -> Option<Refusal> {
    // SAFETY: the device is in a list that is not yet freed.
    let name = c_text(unsafe { &(*device).dev_name });
    let node = format!("/dev/infiniband/{name}");
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let error = rustix::fs::open(node, flags, Mode::empty()).err()?;
    Some(Refusal::Errno(Errno(error.raw_os_error())))
}

/// An open device; closed when dropped.
pub(crate) struct Context {
    context: *mut ibv_context,
}

impl Context {
    pub(crate) fn open(name: &str) -> Result<Self, Refusal> {
        let list = DeviceList::get()?;
        let device = list
            .pointers()
            .iter()
            .find(|device| DeviceList::name(**device) == name);
        let device = *device.ok_or(Refusal::Errno(Errno::ENODEV))?;
        // SAFETY: the device is in the list; an open context keeps its device after the list is freed.
        let context = unsafe { ibv_open_device(device)? };
        if context.is_null() {
            let said = last_error();
            return Err(match said {
                Refusal::Errno(Errno::ENOENT) => node_refusal(device).unwrap_or(said),
                said => said,
            });
        }
        Ok(Context { context })
    }

    pub(super) fn raw(&self) -> *mut ibv_context {
        self.context
    }

    /// What probes and measurements read of a port's attributes.
    pub(crate) fn query_port(&self, port: u8) -> Result<Value, Refusal> {
        let mut attr = MaybeUninit::<ibv_port_attr>::zeroed();
        // SAFETY: the context is open. The exported function writes the first fields only, up to `_compat_ibv_port_attr`; the rest
        // stays zero, which is valid for all of them.
        let attr = unsafe {
            let code = ibv_query_port(self.context, port, attr.as_mut_ptr().cast())?;
            status(code)?;
            attr.assume_init()
        };
        Ok(json!({
            "state": attr.state,
            "phys_state": attr.phys_state,
            "max_mtu": attr.max_mtu,
            "active_mtu": attr.active_mtu,
            "max_msg_sz": attr.max_msg_sz,
            "lid": attr.lid,
            "link_layer": attr.link_layer,
        }))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context came from ibv_open_device and is closed once.
        let _ = unsafe { ibv_close_device(self.context) };
    }
}
