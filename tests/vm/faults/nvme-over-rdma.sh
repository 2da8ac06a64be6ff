# fault: none: a disk of an NVMe target over RDMA, which is this machine itself, by soft-RoCE
# topo: rxe
# expect: healthy
# exit: 0
set -e
. /extra/bin/storage-by-rdma
. /extra/bin/facts-of
target
connect
[ "$(cat /sys/class/nvme/nvme*/transport)" = rdma ]
dd if=/dev/nvme0n1 of=/dev/null bs=64k count=16 iflag=direct status=none
facts_of nvme0 'kind = nvme' 'transport = rdma' 'state = live'
doctor
