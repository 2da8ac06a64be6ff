# fault: none: emulated PCIe functions that pass for adapters and a GPU; each fact of them is what lspci reads, as the machine booted
#        and after setpci changed ACS, read requests, relaxed ordering and extended tags
# topo: rxe
# require: devices,verbs,ports,roce,path,host
# options: --pci acs --pci slow --pci iommu
# expect: no-fault-found
# exit: 0
set -e
: >/out/compare
cp /extra/bin/rdma-doctor /run/rdma-doctor
nics=$(lspci -Dn -d ::0200 | awk '$1 !~ /:00:|:09:/ { print $1 }')
bash /extra/bin/pcie-dress nic $nics
bash /extra/bin/pcie-dress gpu 0000:09:00.0
compare() { bash /extra/bin/pcie-compare /run/rdma-doctor >>/out/compare || { cat /out/compare; exit 99; }; }
compare
setpci -s 00:10.0 ECAP_ACS+6.w=0000
setpci -s 00:11.0 ECAP_ACS+6.w=005d
for f in $nics; do setpci -s "$f" CAP_EXP+8.w=5110:7110; done
compare
setpci -s 00:10.0 ECAP_ACS+6.w=0001
for f in $nics; do setpci -s "$f" CAP_EXP+8.w=2000:7110; done
compare
[ "$(grep -c ', 0 differ' /out/compare)" = 3 ]
# The GPU is a dressed-up function that no driver can examine.
CHECK='--require devices,verbs,ports,roce,path,host' doctor
