# fault: only root may open the device node of rxe0, and the user is another
# topo: rxe
# expect: device/char-device-denied
# subject: rxe0*
# exit: 2
chmod 600 /dev/infiniband/uverbs0
setpriv --reuid=65534 --regid=65534 --clear-groups doctor
