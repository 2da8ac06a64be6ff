# fault: on two NUMA nodes, one does not take memory of the other before it has freed its own
# topo: rxe
# options: --pci numa
# expect: tuning/zone-reclaim
# subject: *
# exit: 1
echo 1 >/proc/sys/vm/zone_reclaim_mode
doctor
