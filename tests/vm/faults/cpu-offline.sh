# fault: one of two CPUs was taken offline
# topo: rxe
# expect: tuning/cpus-offline
# subject: *
# exit: 0
echo 0 >/sys/devices/system/cpu/cpu1/online
doctor
