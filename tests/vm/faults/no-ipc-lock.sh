# fault: a container whose root may lock 8 MiB and has no CAP_IPC_LOCK
# topo: rxe
# expect: host/memlock-low
# subject: *
# exit: 2
unshare --fork --pid --ipc --mount-proc \
    setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock \
    prlimit --memlock=8388608:8388608 doctor
