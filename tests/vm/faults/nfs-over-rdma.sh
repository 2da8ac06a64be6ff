# fault: none: a directory mounted by NFS over RDMA, as /etc/fstab asks; the server is this machine itself, by soft-RoCE
# topo: rxe
# expect: healthy
# exit: 0
set -e
. /extra/bin/storage-by-rdma
. /extra/bin/facts-of
export_directory
echo "$ADDRESS:/ /mnt nfs4 proto=rdma,port=20049 0 0" >>/etc/fstab
mount -i -t nfs4 -o "vers=4.2,addr=$ADDRESS,clientaddr=$ADDRESS,proto=rdma,port=20049" "$ADDRESS:/" /mnt
[ "$(cat /mnt/file)" = content ]
facts_of /mnt 'kind = nfs' 'transport = rdma' 'rdma_wanted = yes'
doctor
