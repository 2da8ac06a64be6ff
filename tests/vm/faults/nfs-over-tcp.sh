# fault: /etc/fstab asks for NFS over RDMA, and the directory was mounted by hand over TCP
# topo: rxe
# expect: storage/over-tcp
# subject: /mnt
# exit: 1
set -e
. /extra/bin/storage-by-rdma
export_directory
echo "$ADDRESS:/ /mnt nfs4 proto=rdma,port=20049 0 0" >>/etc/fstab
mount -i -t nfs4 -o "vers=4.2,addr=$ADDRESS,clientaddr=$ADDRESS,proto=tcp,port=2049" "$ADDRESS:/" /mnt
[ "$(cat /mnt/file)" = content ]
doctor
