# recorded-nodes.sh - two nodes recorded as they are, and the second one again when it is broken (runs inside each of the two VMs)
#
# topo: rxe
# options: --nodes 2
#
# Leaves good-n1.jsonl, good-n2.jsonl and broken-n2.jsonl in /out: n2's packet filter drops what soft-RoCE receives. The test blesses the first two,
# judges the third and waives it.
hostname n$((VM_NODE + 1))
doctor=/run/rdma-doctor
cp /extra/bin/rdma-doctor $doctor && chmod 755 $doctor
record() { # NAME: again where the guest was so slow that something did not answer in time
    local tried
    for tried in 1 2 3 4 5; do
        $doctor record --deadline 300 --no-redact -o "/run/$1.jsonl" || return
        $doctor check --all "/run/$1.jsonl" | grep -q '\[unanswered/' || break
    done
    cp "/run/$1.jsonl" /out/
}
record "good-$(hostname)" || exit 1
[ "$VM_NODE" = 1 ] || exit 0
nft add table inet site
nft 'add chain inet site in { type filter hook input priority 0; policy accept; }'
nft add rule inet site in iifname eth0 udp dport 4791 counter drop
record broken-n2
