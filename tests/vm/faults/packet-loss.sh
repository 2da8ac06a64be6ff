# fault: the wire between rxe0 and rxe1 loses packets while an RDMA program sends over it
# topo: loop
# expect: link/loses-packets
# subject: *
# exit: 1
set -e
ip netns exec wire tc qdisc add dev w1 root netem loss 5%
ib_write_bw -d rxe1 -x 1 -s 8192 -D 120 >/run/server 2>&1 &
for i in $(seq 100); do ss -ltn | grep -q :18515 && break; sleep 0.1; done
ib_write_bw -d rxe0 -x 1 -s 8192 -D 120 10.77.1.2 >/run/client 2>&1 &
sleep 3
doctor --sample 3
