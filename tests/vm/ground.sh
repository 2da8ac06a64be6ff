#!/bin/bash
# ground.sh - faults of the host and of settings, made one after the other in one VM (runs inside it)
#
# topo: rxe
# options: --smp 3 --mem 2048
#
# `fault NAME CHECK` makes a fault by the script that follows, in a shell and a mount and UTS namespace of its own, and the doctor looks: CHECK must lead.
# `quiet NAME` makes a set-up that is unusual and no fault: nothing may lead. What the doctor said stays in /out as NAME.json.
# `tests/suite/ground/missed.txt` names those that are not held, each with the reason.
# GROUND="NAME ..." runs only these.
out=/out
export doctor=/run/rdma-doctor
cp /extra/bin/rdma-doctor $doctor && chmod 755 $doctor
rm -f $out/*.json
# What is in no file here is known nowhere: no name server is asked.
sed -i 's/^hosts:.*/hosts: files/' /etc/nsswitch.conf 2>/dev/null || echo "hosts: files" >/etc/nsswitch.conf
prelude='
undo=()
at_end() { local step; for step in "${undo[@]}"; do eval "$step"; done; kill $(jobs -p) 2>/dev/null; wait 2>/dev/null; }
trap at_end EXIT
tune() { local name; for name; do undo+=("sysctl -qw \"${name%%=*}=$(sysctl -n "${name%%=*}")\""); sysctl -qw "$name" || exit 99; done; }
group() { # NAME FILE=VALUE...: this shell goes on in a control group
    local dir=/sys/fs/cgroup/$1 one; shift
    echo "+cpu +memory +pids" >/sys/fs/cgroup/cgroup.subtree_control
    mkdir -p $dir
    for one; do echo "${one#*=}" >$dir/${one%%=*} || exit 99; done
    undo+=("echo $$ >/sys/fs/cgroup/cgroup.procs")
    echo $$ >$dir/cgroup.procs
}
many_files() { # 3000, held by a shell of their own
    { ulimit -n 4096; for _ in {1..3000}; do exec {file}</dev/null; done; exec sleep infinity; } &
    until [ "$(cut -f1 /proc/sys/fs/file-nr)" -gt 2000 ]; do sleep 0.1; done
}
spin() { while :; do :; done; }
check() { "$doctor" check --deadline 300 --format json "$@"; }
'
run() { # NAME, its script on stdin
    local name=$1 script status
    script=$(cat)
    case " ${GROUND:-$1} " in *" $1 "*) ;; *) return ;; esac
    unshare --mount --uts bash -c "$prelude$script" >"$out/$name.json" 2>"$out/$name.stderr" || status=$?
    echo "$name: status ${status:-0}, $SECONDS s"
}
fault() { run "$1"; }
quiet() { run "$1"; }

quiet as-booted <<'MAKE'
check
MAKE

# The host.
fault loopback-down host/loopback-down <<'MAKE'
undo+=("ip link set lo up")
ip link set lo down
check
MAKE
fault tmp-full host/tmp-unusable <<'MAKE'
mount -t tmpfs -o size=1m tmp /tmp
cat /dev/zero >/tmp/left-by-a-job 2>/dev/null
! echo x >/tmp/x || exit 99
check
MAKE
fault tmp-without-inodes host/tmp-unusable <<'MAKE'
mount -t tmpfs -o size=64m,nr_inodes=16 tmp /tmp
for i in $(seq 20); do : >/tmp/$i; done 2>/dev/null
check
MAKE
fault tmp-read-only host/tmp-unusable <<'MAKE'
mount -t tmpfs -o ro tmp /tmp
check
MAKE
fault tmpdir-full host/tmp-unusable <<'MAKE'
mkdir -p /run/scratch
mount -t tmpfs -o size=1m scratch /run/scratch
cat /dev/zero >/run/scratch/left-by-a-job 2>/dev/null
TMPDIR=/run/scratch check
MAKE
fault tmpdir-absent host/tmp-unusable <<'MAKE'
TMPDIR=/scratch/job.4711 check
MAKE
fault shm-without-inodes self-test/shared-memory-fails <<'MAKE'
mount -t tmpfs -o size=1g,nr_inodes=2 shm /dev/shm
: >/dev/shm/left-by-a-job
check
MAKE
fault own-address-not-delivered self-test/connection-fails <<'MAKE'
address=$(ip -4 -o address show dev eth0 | sed 's/.* inet \([0-9.]*\).*/\1/')
undo+=("ip route add local $address dev eth0 table local proto kernel scope host src $address")
ip route del local $address dev eth0 table local
check
MAKE
fault memory-not-registered host/rdma-cgroup-forbids <<'MAKE'
echo +rdma >/sys/fs/cgroup/cgroup.subtree_control
group registering
echo "rxe0 hca_handle=1 hca_object=2" >/sys/fs/cgroup/registering/rdma.max
check
MAKE
fault map-count-low host/map-count-low <<'MAKE'
tune vm.max_map_count=2048
check
MAKE
fault address-space-limited host/address-space-limited <<'MAKE'
ulimit -v 4194304
check
MAKE
fault files-few-for-ranks host/nofile-low <<'MAKE'
ulimit -n 1024
WORLD_SIZE=2048 LOCAL_WORLD_SIZE=8 RANK=0 check
MAKE
fault files-few host/nofile-low <<'MAKE'
ulimit -n 128
check
MAKE
fault name-unresolvable host/name-unresolvable <<'MAKE'
hostname gpu-node-17
WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 check
MAKE
fault name-on-loopback setting/gloo-announces-loopback <<'MAKE'
hostname gpu-node-17
printf '127.0.0.1 localhost\n127.0.1.1 gpu-node-17\n' >/run/hosts
mount --bind /run/hosts /etc/hosts
WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 check
MAKE
fault ports-few host/ports-few <<'MAKE'
tune "net.ipv4.ip_local_port_range=40000 40015"
WORLD_SIZE=64 LOCAL_WORLD_SIZE=8 check
MAKE
fault ports-few-by-reservation host/ports-few <<'MAKE'
tune "net.ipv4.ip_local_port_range=40000 40999" "net.ipv4.ip_local_reserved_ports=40010-40999"
WORLD_SIZE=64 LOCAL_WORLD_SIZE=8 check
MAKE
fault one-cpu host/few-cpus <<'MAKE'
taskset -cp 1 $$ >/dev/null
check
MAKE
fault quota-of-half-a-cpu host/few-cpus <<'MAKE'
group half cpu.max="50000 100000"
check
MAKE
fault memory-of-group-small host/memory-limited <<'MAKE'
group small memory.max=$((96 << 20)) memory.swap.max=0
check
MAKE
fault library-broken host/libibverbs-fails <<'MAKE'
library=$(readlink -f /usr/lib/x86_64-linux-gnu/libibverbs.so.1)
head -c 20 "$library" >/run/libibverbs.so
mount --bind /run/libibverbs.so "$library"
check
MAKE
fault clock-in-2001 host/clock-before-release <<'MAKE'
undo+=("date -s @$EPOCHSECONDS >/dev/null")
date -s @1000000000 >/dev/null
check
MAKE
fault hogs-on-all-cpus host/cpus-taken <<'MAKE'
for cpu in 0 1 2; do spin & done
check --sample 8
MAKE
fault hogs-more-than-cpus host/cpus-taken <<'MAKE'
for hog in $(seq 8); do spin & done
check --sample 8
MAKE
fault hogs-on-the-jobs-cpus host/cpus-taken <<'MAKE'
for cpu in 0 1; do spin & taskset -cp $cpu $! >/dev/null; done
taskset -cp 0,1 $$ >/dev/null
check --sample 8
MAKE
fault memory-taken host/memory-taken <<'MAKE'
available() { awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo; }
# The buffer is filled before the pipe, which nobody reads, blocks.
undo+=("rm -f /run/pipe")
mkfifo /run/pipe && exec 9<>/run/pipe
dd if=/dev/zero of=/run/pipe bs=$(($(available) - 90))M count=1 2>/dev/null &
for i in $(seq 300); do [ $(available) -lt 100 ] && break; sleep 0.1; done
check
MAKE
fault memory-left-in-shm host/memory-taken <<'MAKE'
mkdir -p /run/shm
mount -t tmpfs -o size=4g left /run/shm
fallocate -l $((($(awk '/^MemAvailable/ { print $2 }' /proc/meminfo) - 90000) << 10)) /run/shm/left-by-a-job
check
MAKE

# NCCL's settings, and those of the launcher.
fault retries-beyond-field nccl/value-not-as-written <<'MAKE'
NCCL_IB_RETRY_CNT=8 check
MAKE
fault timeout-beyond-field nccl/value-not-as-written <<'MAKE'
NCCL_IB_TIMEOUT=32 check
MAKE
fault level-beyond-field nccl/value-not-as-written <<'MAKE'
NCCL_IB_SL=16 check
MAKE
fault class-beyond-field nccl/value-not-as-written <<'MAKE'
NCCL_IB_TC=416 check
MAKE
fault directory-of-log-absent self-test/log-file-fails <<'MAKE'
NCCL_DEBUG=INFO NCCL_DEBUG_FILE=/scratch/logs/nccl.%h.log check
MAKE
fault no-queue-pairs nccl/value-not-as-written <<'MAKE'
NCCL_IB_QPS_PER_CONNECTION=0 check
MAKE
fault queue-pairs-beyond-table nccl/value-not-as-written <<'MAKE'
NCCL_IB_QPS_PER_CONNECTION=256 check
MAKE
fault network-of-no-name nccl/network-unknown <<'MAKE'
NCCL_NET=InfiniBand check
MAKE
fault network-of-missing-plugin nccl/network-unknown <<'MAKE'
NCCL_NET="AWS Libfabric" check
MAKE
fault plugin-missing nccl/plugin-file-missing <<'MAKE'
NCCL_NET_PLUGIN=/opt/plugin/lib/libnccl-net.so check
MAKE
fault tuner-missing nccl/plugin-file-missing <<'MAKE'
NCCL_TUNER_PLUGIN=/opt/aws-ofi-nccl/lib/libnccl-ofi-tuner.so check
MAKE
fault topology-file-missing topology/topo-file-unusable <<'MAKE'
NCCL_TOPO_FILE=/opt/topo/ndv5-topo.xml check
MAKE
fault configuration-file-missing nccl/file-not-read <<'MAKE'
NCCL_CONF_FILE=/etc/site/nccl.conf check
MAKE
# Of IPv6 addresses NCCL takes no GID of another version than it is told; of IPv4 addresses it does.
fault roce-v1-asked nccl/gid-not-routable <<'MAKE'
undo+=("ip address del fd00:77::1/64 dev eth0")
ip address add fd00:77::1/64 dev eth0 nodad
NCCL_IB_ADDR_FAMILY=AF_INET6 NCCL_IB_ROCE_VERSION_NUM=1 check
MAKE
fault family-without-address nccl/gid-not-routable <<'MAKE'
NCCL_IB_ADDR_FAMILY=AF_INET6 check
MAKE
fault master-unresolvable setting/rendezvous-name-unresolvable <<'MAKE'
MASTER_ADDR=gpu-node-01 MASTER_PORT=29500 WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 check
MAKE

# Unusual, and no fault.
quiet quota-of-all-cpus <<'MAKE'
group all cpu.max="300000 100000"
check
MAKE
quiet throttled-in-its-first-periods <<'MAKE'
group first cpu.max="20000 100000"
periods=0
until [ "$periods" -ge 1 ]; do read -r _ periods < <(grep nr_periods /sys/fs/cgroup/first/cpu.stat); done
echo max >/sys/fs/cgroup/first/cpu.max
check
MAKE
quiet tuned <<'MAKE'
tune vm.max_map_count=1048576 "net.ipv4.ip_local_port_range=1024 65535" fs.file-max=9223372036854775807 vm.swappiness=1 net.core.somaxconn=65535 \
    net.core.rmem_max=268435456 net.core.wmem_max=268435456 vm.overcommit_memory=1 vm.min_free_kbytes=16384 net.ipv4.neigh.default.gc_thresh3=65536
check
MAKE
quiet ports-reserved-for-services <<'MAKE'
tune "net.ipv4.ip_local_port_range=32768 60999" "net.ipv4.ip_local_reserved_ports=30000-32767,50000-50010"
WORLD_SIZE=512 LOCAL_WORLD_SIZE=8 check
MAKE
quiet tmp-small-with-room <<'MAKE'
mount -t tmpfs -o size=256m tmp /tmp
check
MAKE
quiet busy-and-fair <<'MAKE'
spin &
check --sample 8
MAKE
quiet busy-with-nice-work <<'MAKE'
for cpu in 0 1 2; do nice -n 19 bash -c 'while :; do :; done' & done
check --sample 8
MAKE
quiet bound-to-two-cpus <<'MAKE'
taskset -cp 1,2 $$ >/dev/null
check
MAKE
quiet files-enough-for-ranks <<'MAKE'
ulimit -n 1024
WORLD_SIZE=16 LOCAL_WORLD_SIZE=8 check
MAKE
quiet memory-used-by-half <<'MAKE'
mkdir -p /run/half
mount -t tmpfs -o size=4g half /run/half
fallocate -l $(($(awk '/^MemAvailable/ { print $2 }' /proc/meminfo) << 9)) /run/half/file
check
MAKE
quiet roce-v1-asked-of-ipv4 <<'MAKE'
NCCL_IB_ROCE_VERSION_NUM=1 check
MAKE
quiet bounds-of-fields <<'MAKE'
NCCL_IB_RETRY_CNT=7 NCCL_IB_TIMEOUT=22 NCCL_IB_SL=15 NCCL_IB_TC=252 NCCL_IB_QPS_PER_CONNECTION=128 check
MAKE
quiet network-in-small-letters <<'MAKE'
NCCL_NET=ib check
MAKE
quiet plugins-refused <<'MAKE'
NCCL_NET_PLUGIN=none NCCL_TUNER_PLUGIN=none check
MAKE
quiet plugin-there <<'MAKE'
mkdir -p /run/plugin && : >/run/plugin/libnccl-tuner.so
NCCL_TUNER_PLUGIN=/run/plugin/libnccl-tuner.so check
MAKE
quiet master-in-hosts <<'MAKE'
printf '127.0.0.1 localhost\n192.168.77.9 gpu-node-01\n192.168.77.1 gpu-node-17\n' >/run/hosts
mount --bind /run/hosts /etc/hosts
hostname gpu-node-17
MASTER_ADDR=gpu-node-01 MASTER_PORT=29500 WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 check
MAKE
quiet name-unresolvable-alone <<'MAKE'
hostname laptop-3
check
MAKE
# The last: the kernel's line about it stands in the log of the whole machine, and would be found by all that follow.
fault file-table-nearly-full host/file-table-full <<'MAKE'
read -r used _ _ </proc/sys/fs/file-nr
tune fs.file-max=$((used + 16))
check
MAKE
# (each processor counts some files by itself, so that a few are no exact number)
fault file-table-full host/file-table-full <<'MAKE'
many_files
tune fs.file-max=2000
check
MAKE
