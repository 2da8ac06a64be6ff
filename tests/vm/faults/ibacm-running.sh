# fault: ibacm runs, without systemd
# topo: rxe
# options: --packages ibacm
# expect: service/ibacm-running
# subject: ibacm
# exit: 1
ibacm
sleep 1
doctor
