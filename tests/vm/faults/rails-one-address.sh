# fault: the configuration of one rail was copied to the other, address and all
# topo: rxe
# options: --qemu-arg -netdev --qemu-arg hubport,id=eth1,hubid=1 --qemu-arg -device --qemu-arg virtio-net-pci,netdev=eth1,mac=52:54:00:77:01:01,romfile=,speed=100000,duplex=full
# expect: rail/address-twice
# subject: eth*
# exit: 2
set -e
ip link set eth1 up
ip address add 192.168.77.1/24 dev eth1
rdma link add rxe1 type rxe netdev eth1
doctor
