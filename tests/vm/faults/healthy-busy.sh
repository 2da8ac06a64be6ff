# fault: none: a wire that loses nothing, under load. On a slow machine acknowledgements come late, and
#   rxe sends again (completer_retry_err, duplicate_request climb): that is no loss.
# topo: loop
# expect: healthy
# exit: 0
set -e
ib_write_bw -d rxe1 -x 1 -s 8192 -D 120 >/run/server 2>&1 &
for i in $(seq 100); do ss -ltn | grep -q :18515 && break; sleep 0.1; done
ib_write_bw -d rxe0 -x 1 -s 8192 -D 120 10.77.1.2 >/run/client 2>&1 &
sleep 3
doctor --sample 3
