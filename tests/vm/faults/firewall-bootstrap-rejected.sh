# fault: iptables over nf_tables rejects all TCP that nobody named, and the job's connections with it
# topo: rxe
# expect: firewall/bootstrap-blocked
# subject: bootstrap TCP in on eth0
# exit: 2
set -e
iptables-nft -A INPUT -i lo -j ACCEPT
iptables-nft -A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -m comment --comment "known ones" -j ACCEPT
iptables-nft -A INPUT -p tcp -m multiport --dports 22,111 -j ACCEPT
iptables-nft -A INPUT -p udp -m udp --dport 4791 -j ACCEPT
iptables-nft -A INPUT -p tcp -j REJECT --reject-with icmp-host-prohibited
cp /proc/modules /run/before
set +e
doctor
status=$?
diff <(cut -d' ' -f1 /run/before | sort) <(cut -d' ' -f1 /proc/modules | sort) >&2 || { echo "a module was loaded by asking" >&2; exit 99; }
exit $status
