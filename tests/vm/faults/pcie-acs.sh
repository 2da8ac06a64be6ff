# fault: ACS redirection at the ports of a switch, between a GPU and an adapter; devices and ACS are dressed up, paths are real
# topo: rxe
# require: devices,verbs,ports,roce,path,host
# options: --pci acs
# expect: pcie/peer-traffic-redirected
# subject: 0000:*
# exit: 2
set -e
gpu=$(lspci -Dn -d 8086:10d3 | awk '{ print $1 }')
nic=$(lspci -Dn -d 1af4::0200 | awk 'END { print $1 }')
bash /extra/bin/pcie-dress gpu "$gpu"
bash /extra/bin/pcie-dress nic "$nic"
for f in "$gpu" "$nic"; do
    bash /extra/bin/pcie-dress acs "$(basename "$(dirname "$(readlink -f "/sys/bus/pci/devices/$f")")")"
done
bash /extra/bin/pcie-dress bare-metal
# The GPU is a dressed-up function that no driver can examine.
CHECK='--require devices,verbs,ports,roce,path,host' doctor
