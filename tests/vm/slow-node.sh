#!/bin/bash
# slow-node.sh - four nodes with two rails, one of which is slow (runs inside each of the four VMs)
#
# topo: rxe
# options: --nodes 4 --rails 2
#
# An all-reduce by RDMA writes, slow for one node's link, is measured on halves of the nodes until that node is found. Then pairs: a rail of one node is slow, and
# rails have a network each. What rank 0 said stays in /out as NAME.json, each node's status and words as NAME.nK.
export RDMA_DOCTOR_KEY="a key of four nodes"
doctor=/run/rdma-doctor
cp /extra/bin/rdma-doctor $doctor && chmod 755 $doctor
out=/out
port=7700
together() { # NAME bench's arguments...: all nodes, at the same time
    local name=$1 status=0 from=$SECONDS
    shift
    port=$((port + 1))
    timeout 700 $doctor bench "$@" --rank "$VM_NODE" --nodes "$VM_NODES" --rendezvous 192.168.77.1:$port --wait 120 --exit-on all --format json \
        >"/run/$name.json" 2>"$out/$name.n$VM_NODE" || status=$?
    echo "status $status in $((SECONDS - from)) s" >>"$out/$name.n$VM_NODE"
    [ "$VM_NODE" != 0 ] || cp "/run/$name.json" "$out/$name.json"
    echo "$name: status $status in $((SECONDS - from)) s"
}
# Busy processors are no fault of a link: each has one that is slower than they are. The queue takes all that is sent at once.
link() { # INTERFACE RATE
    tc qdisc replace dev "$1" root tbf rate "$2" burst 8k latency 8s
}
rm -f $out/{bisected,rails}.*
ip link set eth1 up
ip addr add "192.168.78.$((VM_NODE + 1))/24" dev eth1
rdma link add rxe1 type rxe netdev eth1

link eth0 8mbit
[ "$VM_NODE" != 2 ] || link eth0 2mbit
together bisected all-reduce --bisect --bisect-for 500 --backend verbs --device rxe0/1 --ranks 1 --message 8K -b 64K --warmups 0 --trials 1 --deadline 300

link eth0 8mbit
link eth1 8mbit
[ "$VM_NODE" != 2 ] || link eth1 1mbit
together rails pairs --across --flow 1 --backend verbs --device rxe0/1,rxe1/1
