# fault: nft drops the RoCE packets that arrive at rxe1, and ibv_rc_pingpong, which worked, fails
# topo: loop
# expect: firewall/roce-blocked
# subject: RoCE v2 in on roce1
# exit: 2
pingpong() {
    timeout 60 ibv_rc_pingpong -d rxe1 -g 1 -n 20 >/run/server 2>&1 &
    for i in $(seq 100); do ss -ltn | grep -q :18515 && break; sleep 0.1; done
    timeout 60 ibv_rc_pingpong -d rxe0 -g 1 -n 20 10.77.1.2 >/run/client 2>&1
    local status=$?
    kill %% 2>/dev/null; wait
    return $status
}
pingpong || { echo "pingpong fails without a rule"; cat /run/client; exit 99; }
nft add table inet site
nft 'add chain inet site in { type filter hook input priority 0; policy accept; }'
nft add rule inet site in iifname roce1 udp dport 4791 counter drop
! pingpong || { echo "pingpong works in spite of the rule"; exit 99; }
nft list ruleset | grep -q 'counter packets [1-9]' || { echo "the rule counted nothing"; nft list ruleset; exit 99; }
doctor
