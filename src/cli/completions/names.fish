
# Names of checks, areas and subjects: what the program and the machine have when somebody types.
complete -c rdma-doctor -n 'not __fish_seen_subcommand_from ablate' -l only -x -a '(rdma-doctor completions checks)'
complete -c rdma-doctor -l skip -x -a '(rdma-doctor completions checks)'
complete -c rdma-doctor -n '__fish_seen_subcommand_from explain waive' -f -a '(rdma-doctor completions checks)'
complete -c rdma-doctor -l require -x -a '(rdma-doctor completions areas)'
complete -c rdma-doctor -l subject -x -a '(ls /sys/class/net; cd /sys/class/infiniband 2>/dev/null; and printf "%s\n" */ports/* | string replace /ports "")'
