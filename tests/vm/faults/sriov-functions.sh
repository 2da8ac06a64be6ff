# fault: none: an adapter with three virtual functions, dressed up as one of NVIDIA's: soft-RoCE runs on one, one has no driver and
#        waits for a guest, one is handed to a guest; which functions are virtual is what the adapter's own links and lspci say
# topo: rxe
# options: --pci igb --pci iommu --speed 1000
# expect: healthy
# exit: 0
set -e
. /extra/bin/facts-of
modprobe -a igb igbvf vfio-pci
adapter=$(lspci -Dn -d 8086:10c9 | awk '{ print $1 }')
echo 3 >/sys/bus/pci/devices/$adapter/sriov_numvfs
virtual=()
for link in /sys/bus/pci/devices/$adapter/virtfn*; do virtual+=("$(basename "$(readlink "$link")")"); done
[ "$(lspci -D | grep -c 'Virtual Function')" = 3 ] && [ ${#virtual[@]} = 3 ]
net=$(ls /sys/bus/pci/devices/${virtual[0]}/net)
ip link set "$(ls /sys/bus/pci/devices/$adapter/net)" up
ip link set "$net" up
ip address add 192.168.79.1/24 dev "$net"
rdma link add rxe1 type rxe netdev "$net"
for i in $(seq 50); do grep -q ACTIVE /sys/class/infiniband/rxe1/ports/1/state && break; sleep 0.2; done
echo "${virtual[1]}" >/sys/bus/pci/drivers/igbvf/unbind
echo "${virtual[2]}" >/sys/bus/pci/drivers/igbvf/unbind
echo vfio-pci >/sys/bus/pci/devices/${virtual[2]}/driver_override
echo "${virtual[2]}" >/sys/bus/pci/drivers/vfio-pci/bind
bash /extra/bin/pcie-dress nic "$adapter" "${virtual[@]}"
facts_of "$adapter" 'virtual_function = no' 'driver = igb'
facts_of "${virtual[0]}" 'virtual_function = yes' 'driver = igbvf'
facts_of "${virtual[1]}" 'virtual_function = yes' 'driver = none' 'bound = no'
facts_of "${virtual[2]}" 'virtual_function = yes' 'driver = vfio-pci' 'passed_through = yes'
doctor
