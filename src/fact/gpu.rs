//! The facts of a GPU: as the PCI bus has it, and what NVML reports about it.

use std::sync::Arc;

use super::gpu_nic::Distance;
use super::pcie::link_subject;
use super::value::words;
use super::{BitRate, Bytes, PerSecond, Percent, Seconds};

words! {
    /// A mode that not every GPU has.
    pub enum GpuMode {
        /// On.
        On = "on",
        /// Off.
        Off = "off",
        /// The GPU, or its driver, does not have it.
        Unsupported = "unsupported",
    }
}

words! {
    /// Which processes may use a GPU at one time. Source: nvmlDeviceGetComputeMode.
    pub enum ComputeMode {
        /// Any number of processes.
        Default = "default",
        /// One thread (an old mode).
        ExclusiveThread = "exclusive-thread",
        /// None.
        Prohibited = "prohibited",
        /// One process.
        ExclusiveProcess = "exclusive-process",
    }
}

words! {
    /// The action that the driver requests to make a GPU usable again. Source: NVML's field 230, GET_GPU_RECOVERY_ACTION.
    pub enum RecoveryAction {
        /// Nothing.
        None = "none",
        /// A reset of the GPU.
        Reset = "reset",
        /// A reboot of the node.
        Reboot = "reboot",
        /// Peer-to-peer traffic with it ends.
        DrainP2p = "drain-p2p",
        /// Its work ends, then a reset.
        DrainAndReset = "drain-and-reset",
        /// The IMEX domain, which joins the GPUs of several nodes, is restarted.
        RecoverImexDomain = "recover-imex-domain",
        /// A number that this program does not know.
        Other = "other",
        /// The driver does not say (before release 560, or not for this GPU).
        Unsupported = "unsupported",
    }
}

words! {
    /// What became of a GPU's registration with the NVLink fabric. Source: nvmlDeviceGetGpuFabricInfoV, state.
    pub enum FabricState {
        /// The GPU has no fabric: no NVSwitch, or an NVSwitch of a generation without registration (A100).
        Unsupported = "unsupported",
        /// It has not begun: the fabric manager has not found the GPU.
        NotStarted = "not-started",
        /// It is under way.
        InProgress = "in-progress",
        /// It has completed; the status shows whether with success.
        Completed = "completed",
    }
}

words! {
    /// How healthy a GPU's fabric is, in one word. Source: nvmlDeviceGetGpuFabricInfoV (version 3), healthSummary.
    pub enum FabricHealth {
        /// The driver does not say (before release 575), or there is no fabric.
        Unsupported = "unsupported",
        /// Healthy.
        Healthy = "healthy",
        /// Unhealthy.
        Unhealthy = "unhealthy",
        /// It works with less than it has.
        LimitedCapacity = "limited-capacity",
    }
}

words! {
    /// The market segment of a GPU, by the name of its model: the driver's features depend on it.
    pub enum GpuSegment {
        /// Servers: H100, A100, L40S, T4.
        Compute = "compute",
        /// Workstations: RTX A6000, RTX PRO 6000, Quadro.
        Workstation = "workstation",
        /// Games: GeForce, TITAN. Peer-to-peer over PCIe and GPUDirect RDMA are left out of their driver.
        Consumer = "consumer",
    }
}

link_subject! {
    /// A GPU, as the PCI bus has it, or NVML if the bus does not show it.
    Gpu = "gpu" from "gpu";

    /// Its PCI address, as 0000:1b:00.0.
    PCI: Arc<str> = "pci" from "gpu";
    /// Vendor and device id, as "10de:2330". Source: sysfs vendor, device.
    ID: Arc<str> = "id" from "gpu";
    /// The bound driver's name; "none" if none is bound. Source: the sysfs link `driver`.
    DRIVER: Arc<str> = "driver" from "gpu";
    /// The NUMA node; unknown if the kernel reports -1. Source: sysfs numa_node.
    NUMA_NODE: u64 = "numa_node" from "gpu";
    /// The PCI addresses from the root port down to the function itself, the host bridge (pci0000:00) first. Source: the sysfs link.
    PATH: Arc<[Arc<str>]> = "path" from "gpu";
    /// Whether it is a virtual function (SR-IOV, vGPU). Source: the sysfs link `physfn`.
    VIRTUAL_FUNCTION: bool = "virtual_function" from "gpu";
    /// Whether the kernel's KFD lists it, so that programs can compute on it. Source: sysfs class/kfd/kfd/topology/nodes.
    IN_KFD: bool = "in_kfd" from "amd_gpu";
    /// How many GPUs of its device id the KFD lists, itself counted.
    EQUALS_IN_KFD: u64 = "equals_in_kfd" from "amd_gpu";
    /// How many xGMI links to other GPUs it has. Source: sysfs class/kfd/kfd/topology/nodes/N/io_links, type 11.
    XGMI_LINKS: u64 = "xgmi_links" from "amd_gpu";
    /// The most xGMI links that a GPU of its device id has, itself counted.
    EQUALS_XGMI_LINKS: u64 = "equals_xgmi_links" from "amd_gpu";
    /// How many uncorrected errors amdgpu counted since it was loaded. Source: sysfs ras/*_err_count, ue (kernel documentation gpu/amdgpu/ras).
    RAS_UNCORRECTED: u64 = "ras_uncorrected" from "amd_gpu";
    /// The blocks that had them, with their counts, as far as they answered.
    RAS_BLOCKS: Arc<[Arc<str>]> = "ras_blocks" from "amd_gpu";
    /// Whether it answers on the bus: its configuration space is not all ones. Source: sysfs config.
    ON_BUS: bool = "on_bus" from "gpu";
    /// The nearest adapter that is meant for use, by the name of its RDMA device. Of several that are equally near, the one that is left
    /// when as many GPUs as can be have one of their own.
    NEAR_NIC: Arc<str> = "near_nic" from "derive topology";
    /// The distance to the nearest intended adapter: PIX, PXB, PHB, NODE or SYS.
    NEAR_DISTANCE: Distance = "near_distance" from "derive topology";
    /// Whether most GPUs of the same model, this one counted, have an adapter on their own PCIe switches (PIX or PXB).
    SIBLINGS_NEAR: bool = "siblings_near" from "derive topology";
    /// An equal adapter that is the nearest of no GPU, where this GPU has to share its own with another; "none" if there is none.
    IDLE_NIC: Arc<str> = "idle_nic" from "derive topology";
    /// Whether this process may run on a CPU of the GPU's NUMA node, or that node has no CPU.
    CPUS_ALLOWED: bool = "cpus_allowed" from "derive topology";
    /// Whether NCCL will use one of its nearest adapters, by its own choice of devices.
    NEAR_NIC_SELECTED: bool = "near_nic_selected" from "derive topology";
    /// All adapters that are equally near, by the names of their RDMA devices.
    NEAR_NICS: Arc<[Arc<str>]> = "near_nics" from "derive topology";
    /// The lower end of the link of the path that carries least, as "0000:16:00.0". Source: the hops of the path.
    NARROWEST_HOP: Arc<str> = "narrowest_hop" from "derive pcie_hop";
    /// The bandwidth of the narrowest link on the path to the host bridge; an idle link counts at its best.
    PATH_BANDWIDTH: BitRate = "path_bandwidth" from "derive pcie_hop";
    /// The bandwidth of the slot's link with both ends at their best.
    SLOT_BANDWIDTH: BitRate = "slot_bandwidth" from "derive pcie_hop";
    /// The bandwidth of the links of most GPUs of its kind; its own, if no value has a majority.
    SIBLINGS_SLOT_BANDWIDTH: BitRate = "siblings_slot_bandwidth" from "derive pcie_slot";
    /// Whether it is NVIDIA's. Source: its vendor id, else NVML.
    NVIDIA: bool = "nvidia" from "derive gpu_purpose";
    /// Its market segment: compute, workstation or consumer. Source: the name of its model.
    PURPOSE: GpuSegment = "purpose" from "derive gpu_purpose";
    /// The fabric state of most GPUs of its model; its own, if none has a majority.
    SIBLINGS_FABRIC_STATE: FabricState = "siblings_fabric_state" from "derive gpu_equals";
    /// How many active NVLinks most GPUs of its model have; its own number, if none has a majority.
    SIBLINGS_NVLINKS_ACTIVE: u64 = "siblings_nvlinks_active" from "derive gpu_equals";
    /// Whether a setting of it differs from that of most GPUs of its model: ECC, MIG, persistence, compute mode, power limit, clocks.
    SETTINGS_DIFFER: bool = "settings_differ" from "derive gpu_equals";
    /// The settings in which it differs from most GPUs of its model, as "ECC off (most: on)"; "none" if it differs in none.
    ODD_SETTINGS: Arc<str> = "odd_settings" from "derive gpu_equals";
    /// Whether its VBIOS or firmware is of another version than that of most GPUs of its model.
    FIRMWARE_DIFFERS: bool = "firmware_differs" from "derive gpu_equals";
    /// The firmware in which it differs from most GPUs of its model, as "VBIOS 96.00.61 (most: 96.00.74)"; "none" if it differs in none.
    ODD_FIRMWARE: Arc<str> = "odd_firmware" from "derive gpu_equals";
    /// Its power limit, as a share of the default one.
    POWER_LIMIT_SHARE: Percent = "power_limit_share" from "derive gpu_share";
    /// How much of its memory programs have taken.
    MEMORY_TAKEN: Percent = "memory_taken" from "derive gpu_share";
    /// How often at least it sent a packet again over PCIe: what it has counted, over the time since boot.
    PCIE_REPLAY_RATE: PerSecond = "pcie_replay_rate" from "derive gpu_share";
    /// For how much of the time since boot the power supply has held its clocks down, at least.
    POWER_BRAKE_SHARE: Percent = "power_brake_share" from "derive gpu_share";

    /// Whether NVML lists it; false for a GPU that is not NVIDIA's. Source: nvmlDeviceGetHandleByIndex, nvmlDeviceGetPciInfo.
    IN_NVML: bool = "in_nvml" from "nvml";
    /// Whether the PCI bus shows it to this process; NVML can list GPUs that it does not. Source: /sys/bus/pci/devices.
    ON_PCI: bool = "on_pci" from "nvml";
    /// Whether this process was given it: NVML lists it, or the driver shows it and /dev is the machine's own, outside of jobs, or has as many device
    /// files as the driver shows GPUs. A container has those that it asked for. Source: /proc/driver/nvidia/gpus, /dev, /proc/self/cgroup.
    GIVEN: bool = "given" from "nvml";
    /// Whether NVML reports that it has fallen off the bus, in any reply. Source: NVML_ERROR_GPU_IS_LOST.
    LOST: bool = "lost" from "nvml";
    /// Whether the driver reports that it needs a reset before it can be used, in any reply. Source: NVML_ERROR_RESET_REQUIRED.
    RESET_REQUIRED: bool = "reset_required" from "nvml";
    /// NVML's error when asked for the GPU, as "GPU is lost"; "none" if there is none. Source: nvmlDeviceGetHandleByIndex.
    NVML_ERROR: Arc<str> = "nvml_error" from "nvml";
    /// Its number, as nvidia-smi shows it: GPUs in the order of their PCI addresses. Source: nvmlDeviceGetIndex.
    INDEX: u64 = "index" from "nvml";
    /// The number of its device file, N of /dev/nvidiaN. Source: nvmlDeviceGetMinorNumber.
    MINOR: u64 = "minor" from "nvml";
    /// Whether its device file is in /dev. Source: the listing of /dev.
    CHAR_DEVICE: bool = "char_device" from "nvml";
    /// Its name, as "NVIDIA H100 80GB HBM3". Source: nvmlDeviceGetName.
    MODEL: Arc<str> = "model" from "nvml";
    /// Its place on the baseboard, from 1; 0 for cards. Source: nvmlDeviceGetModuleId.
    MODULE_ID: u64 = "module_id" from "nvml";
    /// Its serial number, by which its vendor replaces it. Source: nvmlDeviceGetSerial.
    SERIAL: Arc<str> = "serial" from "nvml";
    /// Its UUID, as CUDA_VISIBLE_DEVICES takes it: "GPU-…". Source: nvmlDeviceGetUUID.
    UUID: Arc<str> = "uuid" from "nvml";
    /// The version of its VBIOS. Source: nvmlDeviceGetVbiosVersion.
    VBIOS: Arc<str> = "vbios" from "nvml";
    /// The version of its firmware (GSP); "none" if the driver runs without. Source: nvmlDeviceGetGspFirmwareVersion.
    GSP_FIRMWARE: Arc<str> = "gsp_firmware" from "nvml";
    /// Whether it stays initialised while unused. Source: nvmlDeviceGetPersistenceMode.
    PERSISTENCE: GpuMode = "persistence" from "nvml";
    /// Whether it is divided into instances (MIG). Source: nvmlDeviceGetMigMode, current.
    MIG: GpuMode = "mig" from "nvml";
    /// Whether it will be divided after the next reset. Source: nvmlDeviceGetMigMode, pending.
    MIG_PENDING: GpuMode = "mig_pending" from "nvml";
    /// How many MIG devices it has; 0 if it is not divided. Source: nvmlDeviceGetMigDeviceHandleByIndex.
    MIG_DEVICES: u64 = "mig_devices" from "nvml";
    /// Which processes may use it at one time. Source: nvmlDeviceGetComputeMode.
    COMPUTE_MODE: ComputeMode = "compute_mode" from "nvml";
    /// Whether it corrects errors of its memory (ECC). Source: nvmlDeviceGetEccMode, current.
    ECC: GpuMode = "ecc" from "nvml";
    /// Whether it will after the next reset. Source: nvmlDeviceGetEccMode, pending.
    ECC_PENDING: GpuMode = "ecc_pending" from "nvml";
    /// Memory errors corrected since the driver was loaded or the GPU reset. Source: nvmlDeviceGetTotalEccErrors, corrected, volatile.
    ECC_CORRECTED: u64 = "ecc_corrected" from "nvml";
    /// Memory errors not corrected since the driver was loaded or the GPU reset. Source: nvmlDeviceGetTotalEccErrors, uncorrected, volatile.
    ECC_UNCORRECTED: u64 = "ecc_uncorrected" from "nvml";
    /// Memory errors corrected in all of its life. Source: nvmlDeviceGetTotalEccErrors, corrected, aggregate.
    ECC_CORRECTED_EVER: u64 = "ecc_corrected_ever" from "nvml";
    /// Memory errors not corrected in all of its life. Source: nvmlDeviceGetTotalEccErrors, uncorrected, aggregate.
    ECC_UNCORRECTED_EVER: u64 = "ecc_uncorrected_ever" from "nvml";
    /// Errors of its DRAM not corrected since the driver was loaded. Source: nvmlDeviceGetMemoryErrorCounter, DRAM, volatile.
    DRAM_UNCORRECTED: u64 = "dram_uncorrected" from "nvml";
    /// Errors of its DRAM corrected since the driver was loaded. Source: nvmlDeviceGetMemoryErrorCounter, DRAM, volatile.
    DRAM_CORRECTED: u64 = "dram_corrected" from "nvml";
    /// Errors of its SRAM not corrected since the driver was loaded. Source: nvmlDeviceGetMemoryErrorCounter, SRAM, volatile.
    SRAM_UNCORRECTED: u64 = "sram_uncorrected" from "nvml";
    /// Errors of its SRAM not corrected in all of its life. Source: nvmlDeviceGetSramEccErrorStatus, else nvmlDeviceGetMemoryErrorCounter.
    SRAM_UNCORRECTED_EVER: u64 = "sram_uncorrected_ever" from "nvml";
    /// Whether its SRAM has had more errors than its vendor allows; unknown if the driver does not say (before release 535).
    /// Source: nvmlDeviceGetSramEccErrorStatus, bThresholdExceeded.
    SRAM_THRESHOLD_EXCEEDED: bool = "sram_threshold_exceeded" from "nvml";
    /// Whether it takes pages of memory out of use (before the A100). Source: nvmlDeviceGetRetiredPagesPendingStatus.
    RETIRES_PAGES: bool = "retires_pages" from "nvml";
    /// Pages of memory that are out of use after errors of two bits. Source: nvidia-smi -q, Retired
    /// Pages. Only of what tools printed.
    PAGES_RETIRED_DOUBLE_BIT: u64 = "pages_retired_double_bit" from "outputs";
    /// Pages of memory that are out of use. Source: nvmlDeviceGetRetiredPages, both causes.
    PAGES_RETIRED: u64 = "pages_retired" from "nvml";
    /// Whether pages wait for the next reset to be taken out of use. Source: nvmlDeviceGetRetiredPagesPendingStatus.
    PAGES_PENDING: bool = "pages_pending" from "nvml";
    /// Whether it replaces rows of its memory (since the A100). Source: nvmlDeviceGetRemappedRows.
    REMAPS_ROWS: bool = "remaps_rows" from "nvml";
    /// Rows replaced after corrected errors. Source: nvmlDeviceGetRemappedRows.
    REMAPPED_CORRECTED: u64 = "remapped_corrected" from "nvml";
    /// Rows replaced after errors that were not corrected. Source: nvmlDeviceGetRemappedRows.
    REMAPPED_UNCORRECTED: u64 = "remapped_uncorrected" from "nvml";
    /// Whether rows wait for the next reset to be replaced. Source: nvmlDeviceGetRemappedRows.
    REMAP_PENDING: bool = "remap_pending" from "nvml";
    /// Whether replacing a row has failed. Source: nvmlDeviceGetRemappedRows.
    REMAP_FAILED: bool = "remap_failed" from "nvml";
    /// Banks of memory with few spare rows left. Source: nvmlDeviceGetRowRemapperHistogram, low.
    REMAP_BANKS_LOW: u64 = "remap_banks_low" from "nvml";
    /// Banks of memory with no spare row left. Source: nvmlDeviceGetRowRemapperHistogram, none.
    REMAP_BANKS_EMPTY: u64 = "remap_banks_empty" from "nvml";
    /// Whether the checksums of its InfoROM are right. Source: nvmlDeviceValidateInforom.
    INFOROM_VALID: bool = "inforom_valid" from "nvml";
    /// The action that the driver requests to make it usable again. Source: NVML's field GET_GPU_RECOVERY_ACTION.
    RECOVERY_ACTION: RecoveryAction = "recovery_action" from "nvml";
    /// The clock of its multiprocessors now, in MHz. Source: nvmlDeviceGetClockInfo, SM.
    SM_CLOCK: u64 = "sm_clock" from "nvml";
    /// By which part of it its clock is below the median of the GPUs of its model on the node that are not idle, itself among them; 0 if it is not, or if
    /// fewer than three are not idle.
    CLOCK_BELOW: Percent = "clock_below" from "derive gpu_load";
    /// By how many degrees Celsius it is hotter than the median of those; 0 as above.
    HOTTER_BY: u64 = "hotter_by" from "derive gpu_load";
    /// By how many its PCIe replays exceed the median of the GPUs of its model on the node, itself among them; 0 if they do not, or of fewer than three.
    PCIE_REPLAYS_ABOVE: u64 = "pcie_replays_above" from "derive gpu_load";
    /// How far its nearest adapter is, if that is no nearer than NODE or PHB while half of the GPUs
    /// of the matrix have one at PIX or PXB; "none" if it is nearer, or if fewer have. Only of what
    /// tools printed.
    FAR_IN_MATRIX: Arc<str> = "far_in_matrix" from "outputs";
    /// The adapters at PIX or PXB of it, if NCCL_IB_HCA selects none of them and another one of the
    /// matrix: "mlx5_1 (PXB); mlx5_0 is at SYS"; "none" if it selects one of them. Only of what tools
    /// printed.
    LEFT_OUT_IN_MATRIX: Arc<str> = "left_out_in_matrix" from "derive listed_nics";
    /// What its link trained at and what it supports, if it has fewer lanes than that: "Gen4 x8, of
    /// Gen4 x16"; "none" if it has all. Only of what tools printed.
    LINK_BELOW: Arc<str> = "link_below" from "outputs";
    /// By how many its retired pages exceed that median; 0 as above.
    PAGES_RETIRED_ABOVE: u64 = "pages_retired_above" from "derive gpu_load";
    /// The highest clock of its multiprocessors, in MHz. Source: nvmlDeviceGetMaxClockInfo, SM.
    MAX_SM_CLOCK: u64 = "max_sm_clock" from "nvml";
    /// The clock that programs get, in MHz, if it was set. Source: nvmlDeviceGetApplicationsClock, graphics.
    APPLICATION_CLOCK: u64 = "application_clock" from "nvml";
    /// The clock that programs get if none was set, in MHz. Source: nvmlDeviceGetDefaultApplicationsClock, graphics.
    DEFAULT_APPLICATION_CLOCK: u64 = "default_application_clock" from "nvml";
    /// Why its clocks are lower now than they can be, by NVML's names: "idle", "application-clocks", "power-cap", "hw-slowdown",
    /// "sync-boost", "sw-thermal", "hw-thermal", "power-brake", "display-clocks". Source: nvmlDeviceGetCurrentClocksEventReasons.
    CLOCK_REASONS: Arc<[Arc<str>]> = "clock_reasons" from "nvml";
    /// Whether the hardware holds its clocks at half or less: too hot, too much power, or told from outside. One of the next two says more.
    HW_SLOWDOWN: bool = "hw_slowdown" from "nvml";
    /// Whether the hardware holds its clocks down because it, or its memory, is too hot.
    HW_THERMAL: bool = "hw_thermal" from "nvml";
    /// Whether the power supply asks it to hold its clocks down (power brake).
    POWER_BRAKE: bool = "power_brake" from "nvml";
    /// Whether the driver holds its clocks down because it, or its memory, is too hot.
    SW_THERMAL: bool = "sw_thermal" from "nvml";
    /// Whether its clocks are low because nothing runs on it.
    IDLE: bool = "idle" from "nvml";
    /// For how long the driver has held its clocks down for heat, since the driver was loaded. Source: NVML's field 251.
    SW_THERMAL_TIME: Seconds = "sw_thermal_time" from "nvml";
    /// For how long the power supply has held its clocks down, since the driver was loaded. Source: NVML's field 253.
    POWER_BRAKE_TIME: Seconds = "power_brake_time" from "nvml";
    /// Its temperature, in degrees Celsius. Source: nvmlDeviceGetTemperature.
    TEMPERATURE: u64 = "temperature" from "nvml";
    /// The temperature at which its clocks go down, in degrees Celsius. Source: nvmlDeviceGetTemperatureThreshold, slowdown; of AMD hwmon temp2_crit.
    SLOWDOWN_TEMPERATURE: u64 = "slowdown_temperature" from "nvml";
    /// The temperature at which it switches off, in degrees Celsius. Source: nvmlDeviceGetTemperatureThreshold, shutdown; of AMD hwmon temp2_emergency.
    SHUTDOWN_TEMPERATURE: u64 = "shutdown_temperature" from "nvml";
    /// How many degrees are left until its clocks go down, by its own sensors; 0 if none are. Source: nvmlDeviceGetMarginTemperature, else
    /// slowdown threshold less temperature.
    THERMAL_MARGIN: u64 = "thermal_margin" from "nvml";
    /// The temperature of its memory, in degrees Celsius. Source: NVML's field MEMORY_TEMP; of AMD hwmon temp3_input.
    MEMORY_TEMPERATURE: u64 = "memory_temperature" from "nvml";
    /// The highest temperature at which its memory runs at full clock, in degrees Celsius. Source: nvmlDeviceGetTemperatureThreshold, memory.
    MAX_MEMORY_TEMPERATURE: u64 = "max_memory_temperature" from "nvml";
    /// Its power draw in watts. Source: nvmlDeviceGetPowerUsage; of AMD hwmon power1_average, power1_input.
    POWER: u64 = "power" from "nvml";
    /// Its power limit in watts: the lowest of all limits. Source: nvmlDeviceGetEnforcedPowerLimit; of AMD hwmon power1_cap.
    POWER_LIMIT: u64 = "power_limit" from "nvml";
    /// Its default power limit in watts. Source: nvmlDeviceGetPowerManagementDefaultLimit; of AMD hwmon power1_cap_default.
    DEFAULT_POWER_LIMIT: u64 = "default_power_limit" from "nvml";
    /// Packets that it sent again over PCIe, since it was reset. Source: nvmlDeviceGetPcieReplayCounter.
    PCIE_REPLAYS: u64 = "pcie_replays" from "nvml";
    /// Its memory. Source: nvmlDeviceGetMemoryInfo, total.
    MEMORY: Bytes = "memory" from "nvml";
    /// The memory in use by programs, without the driver's own; unknown if the driver does not separate them.
    /// Source: nvmlDeviceGetMemoryInfo_v2, used.
    MEMORY_USED: Bytes = "memory_used" from "nvml";
    /// The window through which others reach its memory over PCIe. Source: nvmlDeviceGetBAR1MemoryInfo, total.
    BAR1: Bytes = "bar1" from "nvml";
    /// How much of the window is taken. Source: nvmlDeviceGetBAR1MemoryInfo, used.
    BAR1_USED: Bytes = "bar1_used" from "nvml";
    /// How many foreign processes compute on it: neither NVIDIA's own services (MPS) nor, with --as, the job's process or its descendants. Source:
    /// nvmlDeviceGetComputeRunningProcesses.
    FOREIGN_PROCESSES: u64 = "foreign_processes" from "nvml";
    /// Those processes, each as "4711 python3 (70.3 GiB)".
    FOREIGN_PROCESS_LIST: Arc<[Arc<str>]> = "foreign_process_list" from "nvml";
    /// Memory in use though no process uses the GPU; unknown where not all processes can be seen (a container's PID namespace) and for a GPU
    /// that is divided (MIG). Source: nvmlDeviceGetMemoryInfo_v2, the lists of processes.
    MEMORY_LEAKED: Bytes = "memory_leaked" from "nvml";
    /// How many C2C links lead to its Grace processor; 0 for a GPU without. Source: NVML's field C2C_LINK_COUNT.
    C2C_LINKS: u64 = "c2c_links" from "nvml";
    /// How many of those are active. Source: NVML's field C2C_LINK_GET_STATUS.
    C2C_LINKS_ACTIVE: u64 = "c2c_links_active" from "nvml";
    /// How many NVLinks it has, in use or not; 0 for a GPU without. Source: nvmlDeviceGetNvLinkState of each.
    NVLINKS: u64 = "nvlinks" from "nvml";
    /// How many of its NVLinks are active. Source: nvmlDeviceGetNvLinkState.
    NVLINKS_ACTIVE: u64 = "nvlinks_active" from "nvml";
    /// Whether none of its NVLinks is active although its model has all of them in use, or another
    /// GPU of the model has some active. Only of what tools printed.
    NVLINKS_ODD_IN_PASTE: bool = "nvlinks_odd_in_paste" from "outputs";
    /// How many of its active NVLinks lead to a switch. Source: nvmlDeviceGetNvLinkRemoteDeviceType.
    NVLINKS_TO_SWITCH: u64 = "nvlinks_to_switch" from "nvml";
    /// What became of its registration with the NVLink fabric. Source: nvmlDeviceGetGpuFabricInfoV.
    FABRIC_STATE: FabricState = "fabric_state" from "nvml";
    /// How the registration ended, in NVML's words: "success" where well; unknown until it is completed. Source: nvmlDeviceGetGpuFabricInfoV.
    FABRIC_STATUS: Arc<str> = "fabric_status" from "nvml";
    /// The clique of the fabric that it is in: GPUs of one clique reach each other. Source: nvmlDeviceGetGpuFabricInfoV, cliqueId.
    FABRIC_CLIQUE: u64 = "fabric_clique" from "nvml";
    /// The UUID of the fabric, across nodes (multi-node NVLink); all zeros within one node. Source: nvmlDeviceGetGpuFabricInfoV.
    FABRIC_CLUSTER: Arc<str> = "fabric_cluster" from "nvml";
    /// How healthy its fabric is, in one word. Source: nvmlDeviceGetGpuFabricInfoV, healthSummary.
    FABRIC_HEALTH: FabricHealth = "fabric_health" from "nvml";
    /// What is wrong with its fabric: "degraded-bandwidth", "route-recovery", "route-unhealthy", "access-timeout-recovery",
    /// "incorrect-sysguid", "incorrect-chassis", "no-partition", "insufficient-nvlinks", "incompatible-gpu-firmware", "invalid-location",
    /// "invalid-gpu-state", "incorrect-configuration" (one that this program does not know), "fabric-manager-disconnected"; none if nothing is, or the
    /// driver does not say.
    /// Source: nvmlDeviceGetGpuFabricInfoV, healthMask.
    FABRIC_PROBLEMS: Arc<[Arc<str>]> = "fabric_problems" from "nvml";

    /// Whether CUDA shows it to this process. Source: cuDeviceGetCount, the PCI address of each device.
    IN_CUDA: bool = "in_cuda" from "cuda";
    /// Its number in CUDA, as this process counts: by speed, or as CUDA_DEVICE_ORDER and CUDA_VISIBLE_DEVICES say. Source: cuDeviceGet.
    CUDA_INDEX: u64 = "cuda_index" from "cuda";
    /// Its compute capability, 90 for 9.0. Source: CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR.
    COMPUTE_CAPABILITY: u64 = "compute_capability" from "cuda";
    /// Whether its memory is the host's (Jetson, GB10). Source: CU_DEVICE_ATTRIBUTE_INTEGRATED.
    INTEGRATED: bool = "integrated" from "cuda";
    /// Whether it uses the page tables of the CPU: a coherent link, as NVLink-C2C of GH200. Source:
    /// CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES.
    COHERENT: bool = "coherent" from "cuda";
    /// Whether adapters may reach its memory (GPUDirect RDMA). Source: CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED.
    GPUDIRECT_RDMA: bool = "gpudirect_rdma" from "cuda";
    /// Whether adapters may reach memory that is mapped piece by piece, as NCCL takes it since 2.19. Source:
    /// CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED.
    GPUDIRECT_RDMA_MAPPED: bool = "gpudirect_rdma_mapped" from "cuda";
    /// Whether its memory can be handed out as a DMA-BUF; false if the driver does not know of it (before release 515).
    /// Source: CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED.
    DMA_BUF: bool = "dma_buf" from "cuda";
    /// Whether NVSwitches add and spread its data by themselves (NVLink SHARP, multicast). Source: CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED.
    MULTICAST: bool = "multicast" from "cuda";
    /// Whether copies between it and the host were measured. Source: `rdma-doctor bench p2p`.
    HOST_COPY_MEASURED: bool = "host_copy_measured" from "p2p";
    /// Whether a copy between it and the host came with wrong bytes, each byte compared.
    HOST_COPY_CORRUPT: bool = "host_copy_corrupt" from "p2p";
    /// Which copies with the host failed, hung or were corrupt, and how; "none" if all are right.
    HOST_COPY_PROBLEM: Arc<str> = "host_copy_problem" from "p2p";
    /// Whether a copy between it and the host was refused, or ended with an error or a crash.
    HOST_COPY_FAILED: bool = "host_copy_failed" from "p2p";
    /// Whether a copy between it and the host did not end by its deadline.
    HOST_COPY_HUNG: bool = "host_copy_hung" from "p2p";
    /// What copies from pinned memory of the host carry, the median of the trials.
    H2D_BANDWIDTH: BitRate = "h2d_bandwidth" from "p2p";
    /// What copies to pinned memory of the host carry, the median of the trials.
    D2H_BANDWIDTH: BitRate = "d2h_bandwidth" from "p2p";
    /// The interquartile range of the trials of copies with the host, as a share of the median: the worst direction.
    HOST_COPY_SPREAD: Percent = "host_copy_spread" from "p2p";
    /// The bandwidth of the slower direction of copies with the host, as a share of its PCIe path's.
    HOST_COPY_OF_PATH: Percent = "host_copy_of_path" from "derive p2p";
    /// The bandwidth of the slower direction, as a share of the faster one's.
    HOST_COPY_BALANCE: Percent = "host_copy_balance" from "derive p2p";
    /// The bandwidth of the slower direction of copies with the host, as a share of the median of all GPUs with the same vendor and device id.
    HOST_COPY_OF_PEERS: Percent = "host_copy_of_peers" from "derive p2p";
}
