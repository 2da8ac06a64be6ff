# fault: soft-RoCE runs on a bond of two, and one of the two has lost its link
# topo: eth
# expect: bond/member-down
# subject: bond0
# exit: 1
set -e
modprobe bonding max_bonds=0
modprobe -a rdma_rxe ib_uverbs rdma_ucm ib_umad
ip link add m0 type veth peer name w0
ip link add m1 type veth peer name w1
ip link add bond0 type bond mode active-backup miimon 100
for member in m0 m1; do ip link set $member down; ip link set $member master bond0; done
ip link set bond0 up
ip link set w0 up; ip link set w1 up
ip address add 10.77.5.1/24 dev bond0
rdma link add rxe0 type rxe netdev bond0
sleep 1
ip link set w1 down
sleep 1
doctor
