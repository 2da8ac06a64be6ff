# fault: libibverbs is not installed
# topo: rxe
# expect: host/libibverbs-missing
# subject: *
# exit: 2
rm /usr/lib/x86_64-linux-gnu/libibverbs.so.1*
doctor
