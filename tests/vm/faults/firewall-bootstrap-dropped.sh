# fault: legacy iptables drops new TCP connections to the ports that the kernel gives out
# topo: rxe
# expect: firewall/bootstrap-blocked
# subject: bootstrap TCP in on eth0
# exit: 2
set -e
iptables-legacy -A INPUT -i lo -j ACCEPT
iptables-legacy -A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
iptables-legacy -A INPUT -p tcp -m multiport --dports 22,111 -j ACCEPT
iptables-legacy -A INPUT -i eth0 -p tcp -m tcp --dport 1024:65535 -m conntrack --ctstate NEW -j DROP
cp /proc/modules /run/before
set +e
doctor
status=$?
diff <(cut -d' ' -f1 /run/before | sort) <(cut -d' ' -f1 /proc/modules | sort) >&2 || { echo "a module was loaded by asking" >&2; exit 99; }
exit $status
