# fault: a user without CAP_IPC_LOCK may lock 64 KiB, which no queue pair fits in
# topo: rxe
# expect: host/memlock-low
# subject: *
# exit: 2
setpriv --reuid=65534 --regid=65534 --clear-groups prlimit --memlock=65536:65536 doctor
