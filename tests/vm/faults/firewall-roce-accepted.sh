# fault: none: a firewall with policy drop that lets the cluster's own subnets and RoCE in
# topo: loop
# expect: healthy
# exit: 0
nft -f - <<N
table inet site {
    set cluster { type ipv4_addr; flags interval; elements = { 10.77.0.0/16 } }
    chain in {
        type filter hook input priority 0; policy drop;
        iif lo accept
        ct state vmap { established : accept, related : accept, invalid : drop }
        ip saddr @cluster udp dport 4791 counter accept
        ip saddr @cluster tcp dport 1024-65535 accept
        tcp dport 22 accept
    }
}
N
timeout 60 ibv_rc_pingpong -d rxe1 -g 1 -n 20 >/run/server 2>&1 &
for i in $(seq 100); do ss -ltn | grep -q :18515 && break; sleep 0.1; done
timeout 60 ibv_rc_pingpong -d rxe0 -g 1 -n 20 10.77.1.2 >/run/client 2>&1 || { echo "pingpong fails"; cat /run/client; nft list ruleset; exit 99; }
wait
nft list ruleset | grep -q 'counter packets [1-9]' || { echo "the rule counted nothing"; nft list ruleset; exit 99; }
doctor
