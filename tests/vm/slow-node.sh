#!/bin/bash
# slow-node.sh - four nodes with two rails, one of which is slow (runs inside the VM)
#
# topo: none
#
# The nodes are processes with a hostname of their own, each with two soft-RoCE devices; rails are bridges in the network namespace "wire", so that what one node sends
# to another leaves a netdev whose rate is limited and enters another one. (Four emulated machines in place of it starve each other on a host with two processors.)
#
# An all-reduce by RDMA writes, slow for one node's link, is measured on halves of the nodes until that node is found. Then pairs: a rail of one node is slow, and
# rails have a network each. What rank 0 said stays in /out as NAME.json, each node's status and words as NAME.nK.
export RDMA_DOCTOR_KEY="a key of four nodes"
doctor=/run/rdma-doctor
cp /extra/bin/rdma-doctor $doctor && chmod 755 $doctor
out=/out
port=7700
node() { # K NAME bench's arguments...
    local k=$1 name=$2 status=0 from=$SECONDS
    shift 2
    unshare --uts bash -c 'hostname n$1; shift; exec "$@"' _ "$k" \
        timeout 400 $doctor bench "$@" --rank "$k" --nodes 4 --rendezvous 127.0.0.1:$port --wait 120 --exit-on all --format json \
        >"/run/$name.$k.json" 2>"$out/$name.n$k" || status=$?
    echo "status $status in $((SECONDS - from)) s" >>"$out/$name.n$k"
}
together() { # NAME bench's arguments, with RAIL0 and RAIL1 for a node's devices...: all nodes, at the same time
    local name=$1 k from=$SECONDS
    shift
    port=$((port + 1))
    for k in 0 1 2 3; do
        local own=("${@/RAIL0/rxe$((2 * k))}")
        node $k "$name" "${own[@]/RAIL1/rxe$((2 * k + 1))}" &
    done
    wait
    cp "/run/$name.0.json" "$out/$name.json"
    echo "$name: $((SECONDS - from)) s"
}
rm -f $out/{bisected,rails}.*

modprobe -a ib_uverbs rdma_ucm rdma_rxe veth bridge
ip netns add wire
ip netns exec wire ip link set lo up
sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
for rail in 0 1; do
    ip netns exec wire ip link add rail$rail type bridge
    ip netns exec wire ip link set rail$rail up
done
# rdma_rxe's UDP port lives in the initial namespace only: all ends stay there, and the rules keep the kernel from short-cutting through lo.
for k in 0 1 2 3; do
    for rail in 0 1; do
        end=$((2 * k + rail)) address=10.77.$rail.$((k + 2))
        ip link add roce$end address 52:54:00:77:10:0$end type veth peer name w$end address 52:54:00:77:11:0$end
        ip link set w$end netns wire
        ip netns exec wire ip link set w$end master rail$rail up
        ip addr add $address/24 dev roce$end
        ip link set roce$end up
        sysctl -qw net.ipv4.conf.roce$end.rp_filter=0 net.ipv4.conf.roce$end.accept_local=1
        ip route add 10.77.$rail.0/24 dev roce$end table $((100 + end))
        ip rule add pref $((10 + end)) iif roce$end to $address lookup local
        ip rule add pref $((20 + end)) oif roce$end lookup $((100 + end))
        ip rule add pref $((30 + end)) oif roce$end unreachable
    done
done
ip rule add pref 100 lookup local
ip rule del pref 0
for end in 0 1 2 3 4 5 6 7; do rdma link add rxe$end type rxe netdev roce$end; done

# Busy processors are no fault of a link: each has one that is slower than they are. The queue takes all that is sent at once.
link() { # NODE RAIL RATE
    tc qdisc replace dev roce$((2 * $1 + $2)) root tbf rate "$3" burst 8k latency 8s
}
links() { # RAIL RATE [RATE of n2]
    local k
    for k in 0 1 2 3; do link $k $1 $2; done
    link 2 $1 ${3:-$2}
}

links 0 16mbit 4mbit
together bisected all-reduce --bisect --bisect-for 500 --backend verbs --device RAIL0/1 --ranks 1 --message 8K -b 64K --warmups 0 --trials 1 --deadline 300

links 0 8mbit
links 1 8mbit 1mbit
together rails pairs --across --flow 1 --backend verbs --device RAIL0/1,RAIL1/1
