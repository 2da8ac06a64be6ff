# fault: two like devices, one on a link of 100 Gb/s, one of 25 Gb/s
# topo: rxe
# options: --qemu-arg -netdev --qemu-arg hubport,id=eth1,hubid=1 --qemu-arg -device --qemu-arg virtio-net-pci,netdev=eth1,mac=52:54:00:77:01:01,romfile=,speed=25000,duplex=full
# expect: link/slower-than-siblings
# subject: *
# exit: 1
set -e
ip link set eth1 up
ip address add 192.168.78.1/24 dev eth1
rdma link add rxe1 type rxe netdev eth1
doctor
