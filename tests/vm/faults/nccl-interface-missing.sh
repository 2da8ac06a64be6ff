# fault: NCCL_SOCKET_IFNAME names an interface that this node does not have
# topo: rxe
# expect: nccl/interface-missing
# subject: NCCL
# exit: 2
export NCCL_SOCKET_IFNAME=bond7
doctor
