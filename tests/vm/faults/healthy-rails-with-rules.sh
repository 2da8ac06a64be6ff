# fault: none: two rails in one network, each with a table and a rule of its own, strict, each answering for itself
# topo: rxe
# options: --qemu-arg -netdev --qemu-arg hubport,id=eth1,hubid=1 --qemu-arg -device --qemu-arg virtio-net-pci,netdev=eth1,mac=52:54:00:77:01:01,romfile=,speed=100000,duplex=full
# expect: healthy
# exit: 0
set -e
ip link set eth1 up
ip address add 192.168.77.11/24 dev eth1
rdma link add rxe1 type rxe netdev eth1
for rail in "eth0 192.168.77.1 101" "eth1 192.168.77.11 102"; do
    read -r device address table <<<"$rail"
    ip route add 192.168.77.0/24 dev "$device" src "$address" table "$table"
    ip rule add from "$address" table "$table"
done
sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
doctor
