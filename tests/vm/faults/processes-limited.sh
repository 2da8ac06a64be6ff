# fault: a user may have 1024 processes and threads
# topo: rxe
# expect: tuning/processes-limited
# subject: *
# exit: 1
prlimit --nproc=1024:1024 doctor
