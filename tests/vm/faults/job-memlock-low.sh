# fault: a running job may lock 64 KiB while the shell that looks has no limit
# topo: rxe
# expect: host/memlock-low
# subject: process *
# exit: 2
setpriv --reuid=65534 --regid=65534 --clear-groups prlimit --memlock=65536:65536 sleep 300 &
job=$!
# Until the last program of the chain is the one that runs.
for _ in $(seq 100); do [ "$(cat /proc/$job/comm)" = sleep ] && break; sleep 0.1; done
doctor --as $job
