# fault: the control group may have 512 processes
# topo: rxe
# expect: tuning/processes-limited
# subject: *
# exit: 1
mkdir -p /sys/fs/cgroup/pod
echo +pids >/sys/fs/cgroup/cgroup.subtree_control
echo 512 >/sys/fs/cgroup/pod/pids.max
echo $$ >/sys/fs/cgroup/pod/cgroup.procs
doctor
