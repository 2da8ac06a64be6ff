# fault: none: two soft-RoCE devices, the ends of one wire
# topo: loop
# expect: healthy
# exit: 0
doctor
