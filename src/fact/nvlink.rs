//! The facts of an NVLink of a GPU.

use std::sync::Arc;

use super::schema::subject;
use super::value::words;
use super::{BitRate, PerSecond};

words! {
    /// The device at the other end of an NVLink. Source: nvmlDeviceGetNvLinkRemoteDeviceType.
    pub enum Remote {
        /// A GPU.
        Gpu = "gpu",
        /// An NVSwitch.
        Switch = "switch",
        /// A CPU (IBM POWER).
        Cpu = "cpu",
        /// The driver does not know.
        Unknown = "unknown",
    }
}

subject! {
    /// An NVLink of a GPU, in use or not. Its name is the GPU's PCI address and the link's number: "0000:1b:00.0 link 3".
    Nvlink = "nvlink" from "nvml";

    /// The link's number at its GPU, from 0.
    LINK: u64 = "link" from "nvml";
    /// Whether it is up. Source: nvmlDeviceGetNvLinkState.
    ACTIVE: bool = "active" from "nvml";
    /// The version of NVLink that it speaks: 2 of V100, 3 of A100, 4 of H100, 5 of B200. Source: nvmlDeviceGetNvLinkVersion.
    VERSION: u64 = "version" from "nvml";
    /// Its bandwidth in one direction; unknown while it is down. Source: NVML's field NVLINK_GET_SPEED, else NVLINK_SPEED_MBPS.
    SPEED: BitRate = "speed" from "nvml";
    /// The device at its other end; unknown while it is down. Source: nvmlDeviceGetNvLinkRemoteDeviceType.
    REMOTE: Remote = "remote" from "nvml";
    /// The PCI address of what is at its other end; unknown while it is down, or where a virtual machine hides it. Source:
    /// nvmlDeviceGetNvLinkRemotePciInfo.
    REMOTE_PCI: Arc<str> = "remote_pci" from "nvml";
    /// Packets that it sent again, since the driver was loaded; unknown since NVLink 5. Source: nvmlDeviceGetNvLinkErrorCounter, DL_REPLAY.
    REPLAYS: u64 = "replays" from "nvml";
    /// How often it trained again after errors. Source: nvmlDeviceGetNvLinkErrorCounter, DL_RECOVERY; since NVLink 5 NVML's field
    /// NVLINK_COUNT_LINK_RECOVERY_EVENTS.
    RECOVERIES: u64 = "recoveries" from "nvml";
    /// How often it could not be trained again (since NVLink 5). Source: NVML's field NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS.
    RECOVERIES_FAILED: u64 = "recoveries_failed" from "nvml";
    /// Flow control units that came broken, since the driver was loaded; unknown since NVLink 5. Source: nvmlDeviceGetNvLinkErrorCounter,
    /// DL_CRC_FLIT.
    CRC_ERRORS: u64 = "crc_errors" from "nvml";
    /// Packets that came broken (since NVLink 5). Source: NVML's field NVLINK_COUNT_RCV_ERRORS.
    RECEIVE_ERRORS: u64 = "receive_errors" from "nvml";
    /// Errors that its error correction could not mend (since NVLink 5). Source: NVML's field NVLINK_COUNT_EFFECTIVE_ERRORS.
    EFFECTIVE_ERRORS: u64 = "effective_errors" from "nvml";
    /// Whether it is inactive although its model has all links in use, or another GPU of the model
    /// has this link up. Only of what tools printed.
    ODD_IN_PASTE: bool = "odd_in_paste" from "outputs";
    /// Whether the link of this number is up at most GPUs of the same model.
    SIBLINGS_ACTIVE: bool = "siblings_active" from "derive nvlink_equals";
    /// What most active links of GPUs of the same model carry; its own, if no speed has a majority.
    SIBLINGS_SPEED: BitRate = "siblings_speed" from "derive nvlink_equals";
    /// The device at the other end of this link on most GPUs of the same model; its own, if none has a majority.
    SIBLINGS_REMOTE: Remote = "siblings_remote" from "derive nvlink_equals";
    /// How often at least it sent a packet again: what it has counted, over the time since boot.
    REPLAY_RATE: PerSecond = "replay_rate" from "derive nvlink_equals";
    /// How often at least something came broken: what it has counted, over the time since boot.
    CRC_RATE: PerSecond = "crc_rate" from "derive nvlink_equals";
}
