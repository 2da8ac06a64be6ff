# fault: /etc/nccl.conf with Windows' line ends and quotation marks, read by a NCCL that keeps both
# topo: rxe
# expect: nccl/value-not-as-written
# subject: NCCL_DEBUG
# exit: 2
set -e
printf 'NCCL_DEBUG="WARN"\r\nNCCL_SOCKET_IFNAME=eth0\r\n' >/etc/nccl.conf
doctor --nccl 2.27.5
