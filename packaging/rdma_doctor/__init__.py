"""rdma-doctor, the diagnostic doctor for GPU clusters: `python3 -m rdma_doctor` starts the program."""
