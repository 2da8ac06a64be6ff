#!/bin/bash
# job.sh - running jobs on two nodes on one wire, of which one rank keeps the other waiting (runs inside each of the two VMs)
#
# topo: rxe
# options: --nodes 2
#
# Ranks that send by RDMA, of which rank 0 on n0 is stopped, and then gone; and ranks of which that on n1 waits for a file of n0's, where a packet filter
# that is put up meanwhile drops what the server's connection carries. What each node's doctor recorded stays in /out/all as NAME.nK.jsonl.
doctor=/run/rdma-doctor
cp /extra/bin/rdma-doctor $doctor && chmod 755 $doctor
out=/out/all
export WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 LOCAL_RANK=0 MASTER_ADDR=192.168.77.1 MASTER_PORT=29500 GROUP_WORLD_SIZE=2
export RANK=$VM_NODE GROUP_RANK=$VM_NODE
meet() { # NAME: both nodes are here
    echo "n$VM_NODE: $1 after $SECONDS s"
    touch "$out/$1.$VM_NODE"
    until [ -e "$out/$1.0" ] && [ -e "$out/$1.1" ]; do sleep 0.2; done
}
look() { # NAME
    meet "before-$1"
    $doctor job --interval 3 --no-redact --record "$out/$1.n$VM_NODE.jsonl" >/dev/null 2>"$out/$1.n$VM_NODE.words" || true
    meet "after-$1"
}
sends() { # whether the queue pairs of this node send and receive
    rdma resource show qp 2>/dev/null | grep -q "state RT[RS].*comm ib_send_bw"
}

# Ranks of RDMA.
if [ "$VM_NODE" = 0 ]; then
    ib_send_bw -d rxe0 -x 1 -D 300 -s 4096 >/run/perftest 2>&1 &
    # It listens on port 18515.
    until grep -q ":4853 .* 0A " /proc/net/tcp /proc/net/tcp6; do sleep 0.2; done
    meet server
else
    meet server
    ib_send_bw -d rxe0 -x 1 -D 300 -s 4096 192.168.77.1 >/run/perftest 2>&1 &
fi
until sends; do sleep 0.5; done
look moves
[ "$VM_NODE" != 0 ] || kill -STOP "$(pidof ib_send_bw)"
look stopped
# Rank 1 would end by itself.
[ "$VM_NODE" != 1 ] || kill -STOP "$(pidof ib_send_bw)"
meet both-stopped
[ "$VM_NODE" != 0 ] || kill -9 "$(pidof ib_send_bw)"
look killed
kill -9 $(jobs -p) $(pidof ib_send_bw) 2>/dev/null
wait

# A file of a server that is not reached any more.
if [ "$VM_NODE" = 0 ]; then
    mkdir -p /run/export
    mount -t tmpfs tmpfs /run/export
    echo shard >/run/export/shard
    modprobe -a nfsd nfsv4
    mount -t nfsd nfsd /proc/fs/nfsd 2>/dev/null
    mkdir -p /var/lib/nfs/v4recovery /run/rpc_pipefs
    echo "/run/export *(ro,fsid=0,no_subtree_check,insecure)" >/etc/exports
    touch /var/lib/nfs/etab /var/lib/nfs/rmtab
    exportfs -a
    rpc.mountd --no-nfs-version 3 --no-udp 2>/dev/null || true
    rpc.nfsd --no-nfs-version 3 --no-udp --grace-time 10 --lease-time 10 2
fi
meet exported
if [ "$VM_NODE" = 1 ]; then
    modprobe nfsv4
    mkdir -p /run/data
    mount -t nfs4 -o hard,noac,timeo=20 192.168.77.1:/ /run/data
    cat /run/data/shard
    nft add table inet t
    nft 'add chain inet t o { type filter hook output priority 0; }'
    nft add rule inet t o tcp dport 2049 drop
    stat /run/data/another-shard >/dev/null 2>&1 &
    until grep -q "^State:.D" /proc/$!/status; do sleep 0.2; done
    rank=$!
    until awk '{ print $3, $7 }' /proc/net/tcp | grep -qi ":0801 0*[1-9A-F]"; do sleep 0.5; done
    echo "waits as $rank"
else
    (exec 3<>/dev/tcp/192.168.77.1/111; read -r -u 3 line) 2>/dev/null &
    nc -l -p 5000 >/dev/null 2>&1 &
fi
look mount
[ "$VM_NODE" != 1 ] || nft flush ruleset
exit 0
