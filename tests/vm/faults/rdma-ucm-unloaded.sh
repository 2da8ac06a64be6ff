# fault: rdma_ucm is not loaded: /dev/infiniband/rdma_cm is missing
# topo: rxe
# expect: host/rdma-cm-missing
# subject: *
# exit: 1
rmmod rdma_ucm
doctor
