# fault: in a container with a systemd of its own, the socket of ibacm waits for the first who asks
# topo: rxe
# options: --packages systemd --packages ibacm --mem 768
# expect: service/ibacm-running
# subject: ibacm
# exit: 1
mkdir -p /etc/systemd/system
printf '[Unit]\nDescription=as little as systemd needs\n' >/etc/systemd/system/doctor.target
container=softroce unshare --pid --mount --fork --mount-proc \
    /usr/lib/systemd/systemd --system --unit=doctor.target --show-status=no </dev/null >/dev/null 2>&1 &
for _ in $(seq 1 60); do
    manager=$(pgrep -x systemd | head -1)
    [ -z "$manager" ] || ! nsenter -t "$manager" -p -m systemctl is-system-running 2>&1 | grep -qE 'running|degraded' || break
    sleep 0.5
done
nsenter -t "$manager" -p -m systemctl start ibacm.socket
nsenter -t "$manager" -p -m doctor
