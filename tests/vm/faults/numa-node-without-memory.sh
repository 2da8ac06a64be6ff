# fault: a NUMA node has a CPU and no memory
# topo: rxe
# options: --qemu-arg -object --qemu-arg memory-backend-ram,size=512M,id=all --qemu-arg -numa --qemu-arg node,nodeid=0,memdev=all,cpus=0 --qemu-arg -numa --qemu-arg node,nodeid=1,cpus=1
# expect: tuning/numa-node-without-memory
# subject: *
# exit: 1
doctor
