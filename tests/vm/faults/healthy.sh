# fault: none: one soft-RoCE device on a port of 100 Gb/s with an IPv4 address
# topo: rxe
# expect: healthy
# exit: 0
doctor
