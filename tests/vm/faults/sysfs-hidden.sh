# fault: a container whose /sys is empty: nothing can be said about devices
# topo: rxe
# expect: undecided
# exit: 3
unshare --mount --propagation private bash -ec 'mount -t tmpfs sys /sys; doctor'
