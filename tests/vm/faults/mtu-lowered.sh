# fault: eth0 carries no more than 1000 bytes, which leaves RoCE packets of 512
# topo: rxe
# expect: roce/mtu-small
# subject: rxe0*
# exit: 1
ip link set eth0 mtu 1000
doctor
