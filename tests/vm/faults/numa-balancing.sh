# fault: the kernel moves memory between two NUMA nodes
# topo: rxe
# options: --pci numa
# expect: healthy
# note: tuning/numa-balancing
# exit: 0
echo 1 >/proc/sys/kernel/numa_balancing
doctor
