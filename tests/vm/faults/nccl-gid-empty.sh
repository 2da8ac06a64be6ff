# fault: NCCL_IB_GID_INDEX points to an empty row of the soft-RoCE device's table
# topo: rxe
# expect: nccl/gid-not-routable
# subject: rxe0/1
# exit: 2
export NCCL_IB_GID_INDEX=77
doctor
