# fault: a process named ibacm runs, without systemd (a stand-in: ibacm itself ends where no port is InfiniBand)
# topo: rxe
# expect: service/ibacm-running
# subject: ibacm
# exit: 1
cp "$(command -v sleep)" /run/ibacm 2>/dev/null || cp /usr/bin/sleep /run/ibacm
/run/ibacm 600 &
doctor
