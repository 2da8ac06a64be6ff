# fault: none: RDMA's MTU follows the network device's, up to jumbo frames, and the doctor expects what the kernel makes of each
# topo: rxe
# expect: healthy
# exit: 0
set -e
. /extra/bin/facts-of
while read -r netdev rdma; do
    ip link set eth0 mtu "$netdev"
    ibv_devinfo -d rxe0 | grep -q "active_mtu:[[:space:]]*$rdma " || { ibv_devinfo -d rxe0; exit 99; }
    facts_of rxe0/1 "netdev_mtu = $netdev B" "mtu = $rdma B" "fitting_mtu = $rdma B" 'max_mtu = 4096 B'
done <<END
500 256
700 512
1400 1024
1500 1024
3000 2048
4200 4096
9000 4096
END
doctor
