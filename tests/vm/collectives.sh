#!/bin/bash
# collectives.sh - collectives over soft-RoCE, with RDMA writes (runs inside the VM, topology loop)
#
# Each of the nine collectives, on 2 and on 4 ranks, over two devices with a wire between them: every value has to be right, and packets have to have
# gone over the wire. Then the wire loses packets: results are right, or a rank says why not. Then it loses all of them: a rank says so, in time.
# What each measurement said stays in /out.
doctor=/run/rdma-doctor
cp /extra/bin/rdma-doctor $doctor && chmod 755 $doctor
out=/out
failed=0
fail() { echo "FAILED: $*"; failed=1; }
why() { # NAME: how the first rank ended, and why
    sed -n 's/^ *"ended": "\(.*\)",*$/\1/p' "$out/$1.json" | head -1
    grep -o '"ibv_[a-z_]*: [^"]*' "$out/$1.json" | head -1
    tail -1 "$out/$1.stderr"
}
bench() { # NAME COLLECTIVE options...: its report to NAME.json; the status is the doctor's
    local name=$1
    shift
    timeout 200 $doctor bench "$@" --backend verbs --device rxe0/1,rxe1/1 --message 64K --format json >"$out/$name.json" 2>"$out/$name.stderr"
}
packets() { # both ways: who sends differs between the collectives
    local of=/sys/class/infiniband/rxe0/ports/1/hw_counters
    echo $(($(cat $of/sent_pkts) + $(cat $of/rcvd_pkts)))
}

right() { # NAME: nothing is wrong, something was looked at
    local wrong checked
    wrong=$(sed -n 's/^ *"wrong": \([0-9]*\),*$/\1/p' "$out/$1.json" | sort -n | tail -1)
    checked=$(sed -n 's/^ *"checked": \([0-9]*\),*$/\1/p' "$out/$1.json" | sort -n | head -1)
    [ "$wrong" = 0 ] && [ "${checked:-0}" -gt 0 ]
}

collectives="all-reduce all-gather reduce-scatter broadcast reduce scatter gather all-to-all send-recv"
for ranks in 2 4; do
    for collective in $collectives; do
        name=$collective-$ranks
        before=$(packets)
        bench $name $collective --ranks $ranks -b 2K -e 2M -f 1024 --warmups 0 --trials 1
        status=$?
        carried=$(($(packets) - before))
        right $name && [ $status = 0 ] || fail "$name: status $status: $(why $name)"
        # Of two operations of 2 MiB, the first try and the one that is timed, one half crosses the wire at least, in packets of 1024 bytes.
        [ $carried -gt 2000 ] || fail "$name: rxe0 sent and received $carried packets"
    done
done
bench in-place all-reduce --ranks 3 --in-place -b 1M --warmups 0 --trials 1 --qps 3 && right in-place || fail "in place, three connections:" $(why in-place)
[ $failed = 1 ] || echo "ok: nine collectives over 2 and 4 ranks"

# Right, or a rank that names its failure; a rank that hangs is neither.
named() { # NAME STATUS
    if [ "$2" = 0 ] && right "$1"; then echo "ok: $1: right"
    elif [ "$2" = 2 ] && why "$1" | grep -q ibv_ && ! grep -q '"ended": "hung"' "$out/$1.json"; then echo "ok: $1: "$(why "$1")
    else fail "$1: status $2:" $(why "$1"); fi
}
ip netns exec wire tc qdisc add dev w1 root netem loss 1%
bench loss all-reduce --ranks 2 -b 2M --warmups 0 --trials 1 --deadline 120
named loss $?
ip netns exec wire tc qdisc del dev w1 root
ip netns exec wire tc qdisc add dev w1 root netem loss 100%
from=$SECONDS
bench cut send-recv --ranks 2 -b 2M --warmups 0 --trials 1 --deadline 120
status=$?
[ $status = 2 ] || fail "cut: status $status"
grep -q 'IBV_WC_RETRY_EXC_ERR' $out/cut.json || fail "cut:" $(why cut)
[ $((SECONDS - from)) -lt 100 ] || fail "cut: it took $((SECONDS - from)) s"
[ $failed = 1 ] || echo "ok: cut:" $(why cut)
exit $failed
