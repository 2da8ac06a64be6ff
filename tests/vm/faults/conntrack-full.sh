# fault: connection tracking has no room for another connection, and drops its packets
# topo: rxe
# expect: kernel/network-table-full
# subject: *
# exit: 1
set -e
nft 'add table inet t'
nft 'add chain inet t out { type filter hook output priority 0; }'
nft 'add rule inet t out ct state new counter'
sysctl -qw net.netfilter.nf_conntrack_max=4
set +e
for port in $(seq 2000 2040); do echo >/dev/udp/192.168.77.1/$port; done 2>/dev/null
dmesg | grep -q "table full" || exit 99
nft flush ruleset
sysctl -qw net.netfilter.nf_conntrack_max=262144
doctor
