# fault: a control group that had a tenth of a CPU, and a program that wanted more
# topo: rxe
# expect: tuning/cpu-throttled
# subject: *
# exit: 1
mkdir -p /sys/fs/cgroup/job
echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
echo "10000 100000" >/sys/fs/cgroup/job/cpu.max
bash -c 'echo $$ >/sys/fs/cgroup/job/cgroup.procs; end=$((SECONDS + 5)); while [ $SECONDS -lt $end ]; do :; done'
# The quota is raised, so that the doctor is hardly held up by it, and not to all of a CPU, which would be no limit; what was, stays counted.
echo "90000 100000" >/sys/fs/cgroup/job/cpu.max
echo $$ >/sys/fs/cgroup/job/cgroup.procs
doctor
