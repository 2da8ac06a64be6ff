#!/bin/bash
# path.sh - two nodes on one wire, and the faults of `path-faults` on the first, one after the other (runs inside each of the two VMs)
#
# topo: rxe
# options: --nodes 2
#
# Of each fault /out has NAME.json (what the doctor on n0 said), NAME.status, NAME.proof (what became of ibv_rc_pingpong and TCP to the peer, and their
# seconds) and, with KEEP, NAME.jsonl (n0's recording). FAULTS has names to run only those.
out=/out
all=/out/all
doctor=/run/rdma-doctor
cp /extra/bin/rdma-doctor $doctor && chmod 755 $doctor
own=192.168.77.$((VM_NODE + 1))
mac=52:54:00:77:00:0$((VM_NODE + 1))
modprobe -a dummy veth bridge macvlan 8021q ifb tun bonding sch_netem 2>/dev/null
ip link show bond0 >/dev/null 2>&1 && ip link delete bond0
ip link set lo up

# As after the boot: each fault finds the same node.
reset() {
    # First the queues: soft-RoCE's packets in them outlive their queue pair, which Linux 6.1 does not survive.
    for kind in root clsact ingress; do tc qdisc del dev eth0 $kind; done
    pkill -f '^ibv_rc_pingpong'
    for device in rxe0 rxe1 rxe9; do rdma link delete $device; done
    nft flush ruleset
    ip rule flush
    ip -6 rule del pref 100
    ip -6 route del blackhole fd00:77::/64
    ip -6 route del default
    ip rule add pref 32766 lookup main
    ip rule add pref 32767 lookup default
    unset MASTER_ADDR MASTER_PORT WORLD_SIZE NCCL_IB_ADDR_FAMILY
    for table in 101 200; do ip route flush table $table; done
    ip link set eth0 nomaster
    for device in $(ls /sys/class/net | grep -v -x -e lo -e eth0); do ip link delete $device; done
    ip address flush dev eth0 scope global
    ip route flush table main
    ip -6 route flush dev eth0 proto static
    ip link set eth0 address $mac mtu 1500 arp on
    # A route that is deleted by hand comes back with the address only.
    ip address add "$own/24" dev eth0
    ip link set eth0 up
    [ -n "$(ip -6 address show dev eth0 scope link)" ] || ip address add "fe80::5054:ff:fe77:$((VM_NODE + 1))/64" dev eth0 nodad
    ip -6 route replace fe80::/64 dev eth0
    sysctl -qw net.netfilter.nf_conntrack_max=65536
    sysctl -qw net.ipv4.neigh.default.gc_thresh1=128 net.ipv4.neigh.default.gc_thresh2=512 net.ipv4.neigh.default.gc_thresh3=1024
    sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.all.arp_ignore=0 net.ipv4.conf.all.arp_announce=0 net.ipv4.tcp_mtu_probing=0 net.core.rmem_max=212992
    sysctl -qw net.ipv4.icmp_echo_ignore_all=0
    ip route flush cache
    ip neigh flush dev eth0 nud all
    rdma link add rxe0 type rxe netdev eth0
} >/dev/null 2>&1

if [ "$VM_NODE" = 1 ]; then
    # The peer does what n0 asks for.
    # (busybox's nc -e gives the connection to a program.)
    serve() { while :; do busybox nc -l -p 7001 -e sh -c 'head -c 400000 | wc -c'; done; }
    serve 2>/dev/null &
    number=0
    while :; do
        number=$((number + 1))
        until [ -e $all/ask-$number ]; do sleep 0.1; done
        case $(cat $all/ask-$number) in end) exit 0 ;; esac
        . $all/ask-$number >$all/said-$number.new 2>&1
        mv $all/said-$number.new $all/said-$number
    done
fi

number=0
n1() { # COMMAND: on the peer, to its end
    number=$((number + 1))
    echo "$*" >$all/ask-$number.new
    mv $all/ask-$number.new $all/ask-$number
    until [ -e $all/said-$number ]; do sleep 0.1; done
}
# (a connection that is refused is an answer)
hello() { for a; do timeout 4 bash -c ": </dev/tcp/192.168.77.$a/9" 2>/dev/null || :; done; }
both() { eval "$*"; n1 "$*"; }
seconds() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f", b - a }'; }
pingpong() { # gid index of the address
    local gid
    for gid in 0 1 2 3; do grep -q '0000:0000:0000:0000:0000:ffff\|^fd00' /sys/class/infiniband/rxe0/ports/1/gids/$gid && break; done
    echo "ibv_rc_pingpong -d rxe0 -g $gid -n 30 -s 1024"
} 2>/dev/null
state() { # NAME worked seconds: as it was without a fault, much slower, or not at all
    local base=${base[$1]:-}
    if [ "$2" != 0 ]; then echo dead
    elif [ -n "$base" ] && awk -v s="$3" -v b="$base" 'BEGIN { exit !(s > 4 * b && s > b + 0.7) }'; then echo slow
    else echo ok; fi
}
declare -A base
prove() { # whether RDMA and TCP reach the peer
    local from rc rdma tcp rdma_s tcp_s tcp_proof
    n1 "timeout 5 $(pingpong) >/dev/null 2>&1 & for i in 1 2 3 4 5 6 7 8 9 10; do ss -ltn | grep -q :18515 && break; sleep 0.1; done"
    from=$EPOCHREALTIME
    # Both at the same time: each waits for seconds where the way is dead.
    {
        [ "$(head -c 400000 /dev/zero | timeout 4 busybox nc "$peer" 7001)" = 400000 ]
        echo "$? $(seconds $from)"
    } >/run/tcp-proof &
    tcp_proof=$!
    timeout 4 $(pingpong) "$peer" >/dev/null 2>&1
    rc=$?
    rdma_s=$(seconds $from) rdma=$(state rdma $rc $rdma_s)
    wait $tcp_proof
    n1 'pkill ibv_rc_pingpong'
    read -r rc tcp_s </run/tcp-proof
    tcp=$(state tcp $rc $tcp_s)
    [ -n "${base[rdma]:-}" ] || base=([rdma]=$rdma_s [tcp]=$tcp_s)
    echo "rdma=$rdma tcp=$tcp ($rdma_s s, $tcp_s s)" >$out/$1.proof
}
options() { options=$*; }
recordings() { recordings=1; }
peer() { peer=$1; }
load() { while :; do head -c 400000 /dev/zero | timeout 3 busybox nc "$peer" 7001; sleep 0.1; done >/dev/null 2>&1 & jobs+=($!); }
writes() { n1 "timeout 20 $(pingpong) >/dev/null 2>&1 & sleep 1"; timeout 20 $(pingpong) -n 100000 "$peer" >/dev/null 2>&1 & jobs+=($!); sleep 1; }

examine() { # NAME BODY
    local name=$1 rc from=$EPOCHREALTIME
    options= recordings= peer=192.168.77.2 jobs=()
    reset
    n1 reset
    for i in 1 2 3 4 5 6 7 8 9 10; do ping -c 1 -W 1 $peer >/dev/null 2>&1 && break; done
    # What runs meanwhile starts when the damage is shown.
    eval "$(grep -v -x -e load -e writes <<<"$2")" >$out/$name.made 2>&1 || echo "status $?" >>$out/$name.made
    prove $name
    eval "$(grep -x -e load -e writes <<<"$2")"
    if [ -n "$recordings" ]; then
        n1 "$doctor record --deadline 300 --no-redact -o $all/n1.jsonl"
        $doctor record --deadline 300 --no-redact -o $out/n0.jsonl 2>$out/$name.stderr
        $doctor check --format json $options $out/n0.jsonl $all/n1.jsonl >$out/$name.json 2>>$out/$name.stderr
        rc=$?
    else
        $doctor check --deadline 300 --format json $options >$out/$name.json 2>$out/$name.stderr
        rc=$?
    fi
    [ -z "${KEEP:-}" ] || $doctor record --deadline 300 --no-redact $(grep -o -e '--sample [0-9]*' <<<"$options") -o $out/$name.jsonl 2>>$out/$name.stderr
    for job in "${jobs[@]}"; do kill $job; done
    echo $rc >$out/$name.status
    echo "$name: status $rc, $(cat $out/$name.proof), $(seconds $from) s"
}
rm -f $all/ask-* $all/said-*
name= body=
one() { case " ${FAULTS:-$name} " in *" $name "*) [ -z "$name" ] || examine "$name" "$body" ;; esac; }
while IFS= read -r line; do
    case $line in
    '#'* | '') ;;
    '== '*)
        one
        name=${line#== } name=${name%% *} body=
        ;;
    *) body+=$line$'\n' ;;
    esac
done < <(echo '== healthy-first |'; echo true; cat /extra/bin/path-faults; echo '== |')
n1 end &
sleep 1
