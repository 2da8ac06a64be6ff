# fault: RDMA devices belong to one network namespace each, and the doctor runs in another
# topo: rxe
# expect: host/netns-hides-devices
# subject: *
# exit: 2
rdma system set netns exclusive || exit 99
rdma system
unshare --net --mount --propagation private bash -ec 'ip link set lo up; mount -t sysfs sys /sys; doctor'
