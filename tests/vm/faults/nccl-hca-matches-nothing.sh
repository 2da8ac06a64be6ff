# fault: NCCL_IB_HCA names an adapter of another node
# topo: rxe
# expect: nccl/selector-unusable
# subject: NCCL_IB_HCA mlx5_0
# exit: 2
export NCCL_IB_HCA==mlx5_0
doctor --nccl 2.27.5
