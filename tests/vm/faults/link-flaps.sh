# fault: the far end of rxe0's wire went away and came back six times since the boot
# topo: loop
# expect: link/flaps
# subject: *
# exit: 1
# (the kernel gathers changes of carrier for up to a second: faster ones are not seen)
carrier() { for i in $(seq 50); do [ "$(cat /sys/class/net/roce0/carrier)" = "$1" ] && return; sleep 0.1; done; exit 99; }
for flap in 1 2 3 4 5 6; do
    ip netns exec wire ip link set w0 down; carrier 0
    ip netns exec wire ip link set w0 up; carrier 1
done
doctor
