#!/bin/bash
# reboot.sh - settings by files and by hand, and what the next boot of the same files makes of them (runs inside the VM, once for each boot)
#
# topo: rxe
# options: --packages systemd --packages ibacm --mem 768
#
# The first boot leaves what the doctor says in /out/said.json. The second one has the same files, applies them by systemd's own programs, and
# leaves in /out/after what each setting is then.
set -e
out=/out
mkdir -p /etc/sysctl.d /etc/systemd/network
cat >/etc/sysctl.d/90-kept.conf <<'END'
vm.max_map_count = 262144
net/core/wmem_max = 4194304
END
echo "net.core.rmem_max = 8388608" >/etc/sysctl.d/95-never-applied.conf
network() { # NAME, lines of [Link]
    printf '[Match]\nName=%s\n[Link]\n%s\n[Network]\nLinkLocalAddressing=no\n' "$1" "$2" >"/etc/systemd/network/20-$1.network"
}
network eth0 ""
network kept0 "MTUBytes=9000"
network other0 "MTUBytes=4200"
ip link add kept0 type dummy
ip link add other0 type dummy
boot() {
    /lib/systemd/systemd-sysctl
    # It leaves root's rights for those of this user.
    echo "systemd-network:x:998:998::/:/usr/sbin/nologin" >>/etc/passwd
    echo "systemd-network:x:998:" >>/etc/group
    mkdir -p /run/systemd/netif/{links,leases,lldp}
    chown -R 998:998 /run/systemd/netif
    # Without udev networkd waits for it, unless /sys is read-only, as in a container.
    unshare --mount bash -c 'mount -o remount,bind,ro /sys; exec /lib/systemd/systemd-networkd' >$out/networkd.log 2>&1 &
    local name networkd=$!
    for name in eth0 kept0 other0; do
        until grep -qs "ADMIN_STATE=configured" "/run/systemd/netif/links/$(cat /sys/class/net/$name/ifindex)"; do kill -0 $networkd; sleep 0.1; done
    done
    kill $networkd
}
if [ ! -e $out/said.json ]; then
    sysctl -qw vm.max_map_count=262144 net.core.wmem_max=4194304 vm.zone_reclaim_mode=1 net.ipv4.conf.all.arp_ignore=1
    for name in eth0 kept0 other0; do ip link set $name mtu 9000; done
    cp /extra/bin/rdma-doctor /run/rdma-doctor
    /run/rdma-doctor facts --json boot_setting >$out/said.json
    exit
fi
boot
for name in eth0 kept0 other0; do echo "MTU of $name=$(cat /sys/class/net/$name/mtu)"; done >$out/after
for key in vm.max_map_count net.core.wmem_max net.core.rmem_max vm.zone_reclaim_mode net.ipv4.conf.all.arp_ignore; do
    echo "$key=$(sysctl -n $key)"
done >>$out/after
