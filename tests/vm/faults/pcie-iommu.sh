# fault: an IOMMU that translates what a GPU and an adapter send each other, both dressed up, as bare metal would have it
# topo: rxe
# require: devices,verbs,ports,roce,path,host
# options: --pci acs --pci iommu
# expect: pcie/iommu-translating
# subject: *
# exit: 1
set -e
bash /extra/bin/pcie-dress nic "$(lspci -Dn -d 1af4::0200 | awk 'END { print $1 }')"
bash /extra/bin/pcie-dress gpu "$(lspci -Dn -d 8086:10d3 | awk '{ print $1 }')"
bash /extra/bin/pcie-dress bare-metal
# The GPU is a dressed-up function that no driver can examine.
CHECK='--require devices,verbs,ports,roce,path,host' doctor
