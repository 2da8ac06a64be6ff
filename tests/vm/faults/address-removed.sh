# fault: eth0 lost its addresses: only the link-local GID is left on rxe0
# topo: rxe
# expect: roce/v2-gid-missing
# subject: rxe0*
# exit: 2
ip -4 address flush dev eth0
ip -6 address flush dev eth0 scope global
doctor
