# fault: soft-RoCE runs on a bridge; one of the bridge's ports carries no more than 1000 bytes, and with it the bridge and RoCE
# topo: eth
# expect: roce/mtu-small
# subject: rxe0*
# exit: 1
set -e
. /extra/bin/facts-of
modprobe -a bridge veth rdma_rxe ib_uverbs rdma_ucm ib_umad
ip link add br0 type bridge
ip link add port0 type veth peer name far0
ip address flush dev eth0
for port in eth0 port0; do ip link set $port master br0; done
for device in far0 port0 br0; do ip link set $device up; done
ip address add 192.168.77.1/24 dev br0
rdma link add rxe0 type rxe netdev br0
facts_of rxe0/1 'netdev_mtu = 1500 B' 'mtu = 1024 B'
ip link set port0 mtu 1000
facts_of rxe0/1 'netdev_mtu = 1000 B' 'mtu = 512 B'
doctor
