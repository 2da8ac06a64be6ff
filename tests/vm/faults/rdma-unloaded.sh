# fault: a machine with Ethernet and nothing of RDMA: no module is loaded, and there is no device
# topo: eth
# expect: device/none
# exit: 3
doctor
