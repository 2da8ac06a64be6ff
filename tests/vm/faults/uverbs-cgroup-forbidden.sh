# fault: the devices cgroup forbids the device node of rxe0, whose mode allows everything
# topo: rxe
# expect: device/char-device-forbidden
# subject: rxe0*
# exit: 2
set -e
mkdir /run/devices
mount -t cgroup -o devices devices /run/devices
mkdir /run/devices/job
read -r node </sys/class/infiniband_verbs/uverbs0/dev
echo "c $node rwm" >/run/devices/job/devices.deny
echo $$ >/run/devices/job/cgroup.procs
doctor
