//! An open device, and what it reports about itself and its ports.

use std::ffi::c_int;
use std::mem::{MaybeUninit, offset_of, size_of};
use std::ptr;

use rdma_sys::{
    _compat_ibv_port_attr, ibv_context, ibv_device, ibv_device_attr, ibv_port_attr, verbs_context,
};
use rustix::fs::{Mode, OFlags};
use serde_json::{Value, json};

use super::{DeviceList, function, guid, last_error, status};
use crate::live::c_text::c_text;
use crate::source::{Errno, Refusal};

/// What `ibv_query_port` fills since rdma-core 55. Older libraries zero what they do not know, since they are told the size.
#[repr(C)]
struct PortAttr {
    base: ibv_port_attr,
    active_speed_ex: u32,
}

type OpenDevice = unsafe extern "C" fn(*mut ibv_device) -> *mut ibv_context;
type CloseDevice = unsafe extern "C" fn(*mut ibv_context) -> c_int;
type QueryDevice = unsafe extern "C" fn(*mut ibv_context, *mut ibv_device_attr) -> c_int;
type QueryPort = unsafe extern "C" fn(*mut ibv_context, u8, *mut _compat_ibv_port_attr) -> c_int;

/// The result of opening the device's node.
///
/// libibverbs goes on to /dev/char if the node refuses, and where that has no links (containers, hosts without udev) it ends
/// with `ENOENT` whatever the cause was.
#[expect(unsafe_code, reason = "reads what libibverbs gave")]
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
    close: CloseDevice,
}

impl Context {
    #[expect(unsafe_code, reason = "calls libibverbs")]
    pub(crate) fn open(name: &str) -> Result<Self, Refusal> {
        let list = DeviceList::get()?;
        let device = list
            .pointers()
            .iter()
            .find(|device| DeviceList::fields(**device).0 == name);
        let device = *device.ok_or(Refusal::Errno(Errno::ENODEV))?;
        // SAFETY: the types are those of verbs.h.
        let (open, close) = unsafe {
            (
                function::<OpenDevice>("ibv_open_device")?,
                function::<CloseDevice>("ibv_close_device")?,
            )
        };
        // SAFETY: the device is in the list; an open context keeps its device after the list is freed.
        let context = unsafe { open(device) };
        if context.is_null() {
            let said = last_error();
            return Err(match said {
                Refusal::Errno(Errno::ENOENT) => node_refusal(device).unwrap_or(said),
                said => said,
            });
        }
        Ok(Context { context, close })
    }

    pub(super) fn raw(&self) -> *mut ibv_context {
        self.context
    }

    #[expect(unsafe_code, reason = "calls libibverbs")]
    pub(super) fn query_device(&self) -> Result<Value, Refusal> {
        let mut attr = MaybeUninit::<ibv_device_attr>::zeroed();
        // SAFETY: the type is that of verbs.h; the context is open; the structure has the size that the library fills. All its
        // fields are numbers, for which zero is valid.
        let attr = unsafe {
            let query = function::<QueryDevice>("ibv_query_device")?;
            status(query(self.context, attr.as_mut_ptr()))?;
            attr.assume_init()
        };
        Ok(json!({
            "fw_ver": c_text(&attr.fw_ver),
            "node_guid": guid(attr.node_guid),
            "sys_image_guid": guid(attr.sys_image_guid),
            "max_mr_size": attr.max_mr_size,
            "page_size_cap": attr.page_size_cap,
            "vendor_id": attr.vendor_id,
            "vendor_part_id": attr.vendor_part_id,
            "hw_ver": attr.hw_ver,
            "max_qp": attr.max_qp,
            "max_qp_wr": attr.max_qp_wr,
            "device_cap_flags": attr.device_cap_flags,
            "max_sge": attr.max_sge,
            "max_cq": attr.max_cq,
            "max_cqe": attr.max_cqe,
            "max_mr": attr.max_mr,
            "max_pd": attr.max_pd,
            "max_qp_rd_atom": attr.max_qp_rd_atom,
            "max_qp_init_rd_atom": attr.max_qp_init_rd_atom,
            "atomic_cap": attr.atomic_cap,
            "max_mw": attr.max_mw,
            "max_ah": attr.max_ah,
            "max_srq": attr.max_srq,
            "max_srq_wr": attr.max_srq_wr,
            "max_pkeys": attr.max_pkeys,
            "local_ca_ack_delay": attr.local_ca_ack_delay,
            "phys_port_cnt": attr.phys_port_cnt,
        }))
    }

    pub(crate) fn query_port(&self, port: u8) -> Result<Value, Refusal> {
        let PortAttr {
            base: attr,
            active_speed_ex,
        } = self.port_attr(port)?;
        let mut value = json!({
            "state": attr.state,
            "phys_state": attr.phys_state,
            "max_mtu": attr.max_mtu,
            "active_mtu": attr.active_mtu,
            "gid_tbl_len": attr.gid_tbl_len,
            "port_cap_flags": attr.port_cap_flags,
            "port_cap_flags2": attr.port_cap_flags2,
            "max_msg_sz": attr.max_msg_sz,
            "bad_pkey_cntr": attr.bad_pkey_cntr,
            "qkey_viol_cntr": attr.qkey_viol_cntr,
            "pkey_tbl_len": attr.pkey_tbl_len,
            "lid": attr.lid,
            "sm_lid": attr.sm_lid,
            "lmc": attr.lmc,
            "max_vl_num": attr.max_vl_num,
            "sm_sl": attr.sm_sl,
            "subnet_timeout": attr.subnet_timeout,
            "init_type_reply": attr.init_type_reply,
            "active_width": attr.active_width,
            "active_speed": attr.active_speed,
            "link_layer": attr.link_layer,
            "flags": attr.flags,
        });
        if active_speed_ex != 0 {
            value["active_speed_ex"] = active_speed_ex.into();
        }
        Ok(value)
    }

    #[expect(unsafe_code, reason = "calls libibverbs")]
    fn port_attr(&self, port: u8) -> Result<PortAttr, Refusal> {
        let mut attr = MaybeUninit::<PortAttr>::zeroed();
        if let Some(query) = self.extended_query_port() {
            // SAFETY: the context is open, and the library writes no more than the size it is told. All fields are numbers, for
            // which zero is valid.
            return unsafe {
                status(query(
                    self.context,
                    port,
                    attr.as_mut_ptr().cast(),
                    size_of::<PortAttr>(),
                ))?;
                Ok(attr.assume_init())
            };
        }
        // SAFETY: the exported function writes the first fields only, up to `_compat_ibv_port_attr`; the rest stays zero.
        unsafe {
            let query = function::<QueryPort>("ibv_query_port")?;
            status(query(self.context, port, attr.as_mut_ptr().cast()))?;
            Ok(attr.assume_init())
        }
    }

    /// `query_port` of the extended context that lies in front of the context, as `verbs_get_ctx_op` of verbs.h finds it.
    /// (The one in rdma-sys 0.3 takes the marker for 32 bits and never finds it.)
    #[expect(unsafe_code, reason = "reads what libibverbs gave")]
    fn extended_query_port(
        &self,
    ) -> Option<unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr, usize) -> c_int>
    {
        // SAFETY: the context is open. If the marker is all ones, it is the last member of a verbs_context, and `sz` says how
        // much of that is there, counted from its end.
        unsafe {
            if (*self.context).abi_compat.addr() != usize::MAX {
                return None;
            }
            let extended: *const verbs_context = self
                .context
                .cast_const()
                .cast::<u8>()
                .sub(offset_of!(verbs_context, context))
                .cast();
            let needed = size_of::<verbs_context>() - offset_of!(verbs_context, query_port);
            let size = ptr::read(&raw const (*extended).sz);
            if size < needed {
                return None;
            }
            ptr::read(&raw const (*extended).query_port)
        }
    }
}

impl Drop for Context {
    #[expect(unsafe_code, reason = "calls libibverbs")]
    fn drop(&mut self) {
        // SAFETY: the context came from ibv_open_device and is closed once.
        unsafe { (self.close)(self.context) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_that_of_rdma_core() {
        // sizeof(struct ibv_port_attr) is 52 up to rdma-core 54 and 56 since, with active_speed_ex at its end.
        assert_eq!(size_of::<ibv_port_attr>(), 52);
        assert_eq!(offset_of!(PortAttr, active_speed_ex), 52);
        assert_eq!(size_of::<PortAttr>(), 56);
    }
}
