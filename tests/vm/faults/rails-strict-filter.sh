# fault: two rails have addresses in one network, and the reverse path filter is strict: the second hears its peers and does not answer
# topo: rxe
# options: --qemu-arg -netdev --qemu-arg hubport,id=eth1,hubid=1 --qemu-arg -device --qemu-arg virtio-net-pci,netdev=eth1,mac=52:54:00:77:01:01,romfile=,speed=100000,duplex=full
# expect: rail/peers-unanswered
# subject: eth1
# exit: 2
set -e
ip link set eth1 up
ip address add 192.168.77.11/24 dev eth1
rdma link add rxe1 type rxe netdev eth1
sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
doctor
