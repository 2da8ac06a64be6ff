# fault: one of three CPUs was taken offline
# topo: rxe
# options: --smp 3
# expect: healthy
# note: tuning/cpus-offline
# exit: 0
echo 0 >/sys/devices/system/cpu/cpu2/online
doctor
