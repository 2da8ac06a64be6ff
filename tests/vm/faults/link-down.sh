# fault: the network device beneath rxe0 is administratively down
# topo: rxe
# expect: link/netdev-down
# subject: *
# exit: 2
ip link set eth0 down
doctor
