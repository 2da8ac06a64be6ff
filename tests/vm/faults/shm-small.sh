# fault: /dev/shm holds 16 MiB
# topo: rxe
# expect: host/shm-small
# subject: *
# exit: 1
mount -o remount,size=16m /dev/shm
doctor
