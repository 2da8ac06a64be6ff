# fault: the user-space provider of rxe0 is not installed (rdma-core's librxe)
# topo: rxe
# expect: device/provider-missing
# subject: rxe0*
# exit: 2
rm /etc/libibverbs.d/rxe.driver /usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav*.so
doctor
