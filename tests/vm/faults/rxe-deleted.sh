# fault: the only RDMA device is gone, its modules are loaded
# topo: rxe
# expect: device/none
# exit: 3
rdma link delete rxe0
doctor
