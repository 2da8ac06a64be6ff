# fault: the device node of rxe0 is deleted, as when udev did not run
# topo: rxe
# expect: device/char-device-absent
# subject: rxe0*
# exit: 2
rm /dev/infiniband/uverbs0
doctor
