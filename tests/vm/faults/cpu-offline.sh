# fault: one of two CPUs was taken offline
# topo: rxe
# expect: healthy
# note: tuning/cpus-offline
# exit: 0
echo 0 >/sys/devices/system/cpu/cpu1/online
doctor
