# fault: a node of a Slurm cluster (there is /run/munge) whose clock nobody keeps
# topo: rxe
# expect: host/clock-unsynchronised
# exit: 1
mkdir -p /run/munge
doctor
