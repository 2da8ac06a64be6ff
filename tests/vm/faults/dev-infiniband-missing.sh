# fault: a container that was started without the RDMA device nodes: it has a /dev of its own
# topo: rxe
# expect: host/dev-infiniband-missing
# subject: *
# exit: 2
container() {
    mount -t tmpfs -o mode=755 dev /dev
    mkdir /dev/shm /dev/pts
    mount -t tmpfs -o mode=1777,size=2g shm /dev/shm
    mknod -m 666 /dev/null c 1 3
    mknod -m 666 /dev/zero c 1 5
    mknod -m 666 /dev/full c 1 7
    mknod -m 666 /dev/random c 1 8
    mknod -m 666 /dev/urandom c 1 9
    mknod -m 666 /dev/tty c 5 0
    ln -s /proc/self/fd /dev/fd
    doctor
}
export -f container
unshare --mount --propagation private bash -ec container
