
# Names of checks and areas: what the program has when somebody types.
_rdma-doctor_checks() { compadd -- ${(f)"$(rdma-doctor completions checks 2>/dev/null)"} }
_rdma-doctor_areas() { compadd -- ${(f)"$(rdma-doctor completions areas 2>/dev/null)"} }
