# fault: a job is bound to CPUs that isolcpus= keeps out of the scheduler's balance: all its threads stay on one of them
# topo: rxe
# options: --smp 4 --append isolcpus=2,3
# expect: host/cpus-isolated
# subject: *
# exit: 1
taskset -cp 2,3 $$ >/dev/null
doctor
