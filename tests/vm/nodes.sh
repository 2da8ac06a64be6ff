#!/bin/bash
# nodes.sh - two nodes on one wire: pairs and an all-reduce by RDMA writes (runs inside each of the two VMs)
#
# topo: rxe
# options: --nodes 2
#
# A clock that is an hour and a half ahead. Pairs of what is well; of n1 that loses 2 % of what it sends; of n0 whose packet filter drops what soft-RoCE receives; and without RDMA in n1. What rank 0
# said of each stays in /out as NAME.json, each node's status and words as NAME.nK.
export RDMA_DOCTOR_KEY="a key of two nodes"
doctor=/run/rdma-doctor
cp /extra/bin/rdma-doctor $doctor && chmod 755 $doctor
out=/out
port=7700
together() { # NAME the doctor's arguments...: both nodes, at the same time
    local name=$1 status=0 from=$SECONDS
    shift
    port=$((port + 1))
    timeout 500 $doctor "$@" --rank "$VM_NODE" --nodes 2 --rendezvous 192.168.77.1:$port --wait 60 --exit-on all --format json \
        >"/run/$name.json" 2>"$out/$name.n$VM_NODE" || status=$?
    echo "status $status in $((SECONDS - from)) s" >>"$out/$name.n$VM_NODE"
    [ "$VM_NODE" != 0 ] || cp "/run/$name.json" "$out/$name.json"
    echo "$name: status $status in $((SECONDS - from)) s"
}
pairs() { # NAME more...
    local name=$1
    shift
    together "$name" bench pairs "$@"
}
rm -f $out/{clock,well,loss,filtered,reach,socket,all-reduce}.*
# What measures time goes on: only who asks what o'clock it is hears of it.
[ "$VM_NODE" != 1 ] || date -s "@$((EPOCHSECONDS + 5400))" >/dev/null
together clock check --cluster --deadline 90
[ "$VM_NODE" != 1 ] || date -s "@$((EPOCHSECONDS - 5400))" >/dev/null

# What two busy processors hold up is no fault of the wire: both have one that is slower than they are.
well() { # RATE
    tc qdisc del dev eth0 root 2>/dev/null || true
    tc qdisc add dev eth0 root handle 1: tbf rate $1 burst 32k latency 500ms
}
well 4mbit
# By link-local addresses, which nobody would choose by himself.
pairs well --flow 1 --gid-index 0

well 16mbit
[ "$VM_NODE" != 1 ] || tc qdisc add dev eth0 parent 1:1 handle 10: netem loss 2%
# Each loss costs a second where the last packet of several is among them: that takes a while to be seen often enough.
pairs loss --flow 3 --backend verbs
well 16mbit

together all-reduce bench all-reduce --backend verbs --device rxe0/1 --ranks 1 --message 64K -b 64K --warmups 0 --trials 1 --deadline 200

if [ "$VM_NODE" = 0 ]; then
    nft add table inet t
    nft 'add chain inet t in { type filter hook input priority 0; }'
    nft add rule inet t in udp dport 4791 drop
fi
pairs filtered --backend verbs -o /run/filtered.jsonl --no-redact
if [ "$VM_NODE" = 0 ]; then
    nft flush ruleset
    # What the recording says where all checks are asked: the filter is the cause.
    $doctor check --format json /run/filtered.jsonl >$out/filtered.check.json 2>>$out/filtered.n0
fi

# A way that takes no large packets, which no node's own state shows.
tc qdisc del dev eth0 root 2>/dev/null || true
if [ "$VM_NODE" = 0 ]; then
    nft add table inet t
    nft 'add chain inet t in { type filter hook input priority 0; }'
    nft add rule inet t in udp dport 4791 meta length '>' 600 drop
fi
together reach check --cluster --deadline 90
[ "$VM_NODE" != 0 ] || nft flush ruleset

# Where one node has no port that works, all of them measure over sockets.
[ "$VM_NODE" != 1 ] || rdma link delete rxe0
well 2mbit
pairs socket --flow 1 --backend auto
