# fault: a user may have 512 processes and threads
# topo: rxe
# expect: tuning/processes-limited
# subject: *
# exit: 1
setpriv --reuid=65534 --regid=65534 --clear-groups prlimit --nproc=512:512 --memlock=unlimited doctor
