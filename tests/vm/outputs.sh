#!/bin/bash
# outputs.sh - the same machine recorded, and by what its tools print (runs inside the VM)
#
# topo: loop
#
# /out has live.jsonl and tools.txt. Some things are broken, so that there is something to agree on.
doctor=/extra/bin/rdma-doctor
modprobe -a sch_netem nf_tables 2>/dev/null
tc qdisc add dev roce1 root netem loss 1% delay 5ms
nft add table inet site
nft 'add chain inet site input { type filter hook input priority 0; policy drop; }'
nft add rule inet site input iif lo accept
sysctl -q -w kernel.numa_balancing=1
# A container's shared memory.
mount -o remount,size=32m /dev/shm
ulimit -l 64
ulimit -n 512
export NCCL_IB_DISABLE=1 NCCL_IB_HCA=mlx5_9
$doctor record --no-redact -o /out/live.jsonl || exit
$doctor collect-script >/tmp/collect.sh && sh /tmp/collect.sh >/out/tools.txt
