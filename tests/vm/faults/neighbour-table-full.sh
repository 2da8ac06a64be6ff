# fault: the neighbour table is full: the kernel says so when one more address is looked for
# topo: rxe
# expect: kernel/network-table-full
# subject: *
# exit: 1
sysctl -qw net.ipv4.neigh.default.gc_thresh1=1 net.ipv4.neigh.default.gc_thresh2=2 net.ipv4.neigh.default.gc_thresh3=4
for i in $(seq 20 60); do ping -c 1 -W 1 192.168.77.$i >/dev/null & done
for _ in $(seq 100); do dmesg | grep -q "table overflow" && break; sleep 0.1; done
wait
dmesg | grep -q "table overflow" || exit 99
sysctl -qw net.ipv4.neigh.default.gc_thresh1=128 net.ipv4.neigh.default.gc_thresh2=512 net.ipv4.neigh.default.gc_thresh3=1024
doctor
