# fault: the NVMe target behind RDMA is gone, and the controller tries to find it again
# topo: rxe
# expect: storage/session-lost
# subject: nvme0
# exit: 2
set -e
. /extra/bin/storage-by-rdma
target
connect
lose_target
for i in $(seq 100); do [ "$(cat /sys/class/nvme/nvme0/state)" = live ] || break; sleep 0.2; done
doctor
