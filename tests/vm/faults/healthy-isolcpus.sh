# fault: none: two CPUs are isolated for a service, and the job runs on the others
# topo: rxe
# options: --smp 4 --append isolcpus=2,3
# expect: healthy
# exit: 0
doctor
