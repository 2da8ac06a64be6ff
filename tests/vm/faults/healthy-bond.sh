# fault: none: soft-RoCE on a bond of two whose other end speaks LACP
# topo: eth
# expect: healthy
# exit: 0
set -e
modprobe bonding max_bonds=0
modprobe -a rdma_rxe ib_uverbs rdma_ucm ib_umad
ip link add m0 type veth peer name w0
ip link add m1 type veth peer name w1
ip netns add switch
ip link set w0 netns switch
ip link set w1 netns switch
ip -n switch link add trunk type bond mode 802.3ad miimon 100 lacp_rate fast
for member in w0 w1; do ip -n switch link set $member master trunk; done
ip -n switch link set trunk up
ip link add bond0 type bond mode 802.3ad miimon 100 xmit_hash_policy layer3+4 lacp_rate fast
for member in m0 m1; do ip link set $member down; ip link set $member master bond0; done
ip link set bond0 up
ip address add 10.77.5.1/24 dev bond0
rdma link add rxe0 type rxe netdev bond0
# Until both ends collect and distribute.
for i in $(seq 100); do
    [ "$(cat /sys/class/net/m?/bonding_slave/ad_partner_oper_port_state | sort -u)" = 63 ] && break
    sleep 0.2
done
doctor
