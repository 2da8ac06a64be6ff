# fault: none: two NUMA nodes, and a process that may use the CPUs and the memory of one of them; soft-RoCE is on neither
# topo: rxe
# options: --pci numa
# expect: healthy
# exit: 0
group=/sys/fs/cgroup/bound
if [ ! -e /sys/fs/cgroup/cgroup.controllers ]; then
    mkdir -p /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup
fi
echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control && mkdir -p $group &&
    echo 0 >$group/cpuset.cpus && echo 0 >$group/cpuset.mems && echo $$ >$group/cgroup.procs || exit 99
grep allowed_list /proc/self/status
# The facts, as the kernel says them: a list of what is forbidden, and where the two adapters of the machine are.
/extra/bin/rdma-doctor facts >/tmp/facts || exit 98
grep -E 'cpus_allowed|nodes_forbidden|numa_nodes|memory_left_out' /tmp/facts
grep -q 'cpus_allowed = 0 ' /tmp/facts && grep -q 'cpu_nodes_forbidden = 1 ' /tmp/facts &&
    grep -q 'memory_nodes_forbidden = 1 ' /tmp/facts && grep -q 'numa_nodes = 2 ' /tmp/facts || exit 97
/extra/bin/rdma-doctor topo || exit 96
doctor
