#!/bin/sh
# Collects what `rdma-doctor check FILE` reads, for a machine on which rdma-doctor cannot run.
# It reads, changes nothing, and writes to its standard output:
#     rdma-doctor collect-script > collect.sh        where rdma-doctor runs
#     sh collect.sh > node.txt                       on the machine, as root if you can
#     rdma-doctor check node.txt                     where rdma-doctor runs
# The output has host names, addresses and serial numbers: read it before you post it.
export LC_ALL=C
PATH=$PATH:/usr/sbin:/sbin
p="[rdma-doctor@$(uname -n) /]\$"
limit=
if timeout 1 true 2>/dev/null; then limit='timeout 30'; fi
# A command with its prompt, if it is there; nothing waits for ever.
run() {
    command -v "$1" >/dev/null 2>&1 || return 0
    printf '%s %s\n' "$p" "$*"
    $limit "$@" 2>&1 </dev/null
}
# A file, byte for byte; a directory; the target of a link.
file() {
    if [ -f "$1" ]; then
        printf '%s cat %s\n' "$p" "$1"
        $limit cat "$1" 2>&1 </dev/null
    fi
}
dir() { if [ -d "$1" ]; then printf '%s ls -1 %s\n' "$p" "$1"; ls -1A "$1"; fi; }
link() { if [ -L "$1" ]; then printf '%s readlink %s\n' "$p" "$1"; readlink "$1"; fi; }

for f in /etc/os-release /etc/nccl.conf /etc/security/limits.conf /etc/security/limits.d/*.conf /proc/cmdline /proc/cpuinfo /proc/meminfo /proc/modules /proc/uptime /proc/self/cgroup \
    /proc/self/limits /proc/self/status /proc/net/route /proc/mounts /proc/driver/nvidia/version /proc/sys/kernel/osrelease \
    /proc/sys/kernel/hostname /proc/sys/kernel/numa_balancing /proc/sys/net/ipv4/ip_local_port_range \
    /proc/sys/vm/max_map_count /proc/sys/vm/zone_reclaim_mode /sys/devices/system/node/online /sys/devices/system/cpu/modalias; do
    file "$f"
done
for n in pid user net; do link /proc/self/ns/$n; done
for d in / /etc/security /etc/security/limits.d /dev /dev/infiniband /sys/class /sys/class/infiniband /sys/class/net /sys/module /proc/driver /proc/driver/nvidia/gpus; do
    dir "$d"
done
for d in /sys/class/infiniband/*; do
    [ -d "$d" ] || continue
    link "$d"
    link "$d/device"
    link "$d/device/driver"
    for f in node_type node_guid sys_image_guid fw_ver hca_type board_id parent device/numa_node device/vendor device/device; do
        file "$d/$f"
    done
    dir "$d"
    dir "$d/ports"
    dir "$d/device"
    dir "$d/device/net"
    for port in "$d"/ports/*; do
        dir "$port"
        for f in state phys_state rate link_layer lid sm_lid; do file "$port/$f"; done
        for sub in counters hw_counters pkeys; do
            dir "$port/$sub"
            for f in "$port/$sub"/*; do file "$f"; done
        done
        dir "$port/gids"
        for gid in "$port"/gids/*; do
            read -r value <"$gid" || continue
            file "$gid"
            case $value in 0000:0000:0000:0000:0000:0000:0000:0000) continue ;; esac
            file "$port/gid_attrs/types/${gid##*/}"
            file "$port/gid_attrs/ndevs/${gid##*/}"
        done
    done
done 2>/dev/null
for d in /sys/class/net/*; do
    [ -e "$d" ] || continue
    link "$d"
    dir "$d"
    for f in flags operstate mtu speed carrier_changes dev_port dev_id type; do file "$d/$f"; done
done

run uname -a
run ibstat
run ibv_devinfo -v
run rdma link
run show_gids
run ibdev2netdev
run ip -d link
run ip addr
run ip route
run ip route show table all
run ip rule
run ip neigh
run rdma statistic show
run perfquery -x
run lldpctl -f json
run tc qdisc show
for d in /sys/class/infiniband/*/device/net/*; do
    [ -e "$d" ] || continue
    n=${d##*/}
    run ethtool "$n"
    run ethtool -S "$n"
    run ethtool -a "$n"
    run ethtool -m "$n"
    run ethtool --show-fec "$n"
    run ethtool -k "$n"
    run mlnx_qos -i "$n"
done
run nvidia-smi -q
run nvidia-smi topo -m
run nvidia-smi nvlink -s
run nvidia-smi nvlink -e
run amd-smi static --bus
run amd-smi metric
run lscpu
run numactl -H
run mount
run beegfs-net
run systemctl status openibd rdma-ndd nvidia-fabricmanager nvidia-persistenced irqbalance
run lspci -D -vvv
run lspci -D -t
run lsmod
run df -k /dev/shm
run dmesg
run iptables-save
run nft -j list ruleset
printf '%s ulimit -a\n' "$p"; ulimit -a
printf '%s env\n' "$p"; env | grep '^NCCL_'
printf '%s true\n' "$p"
