# fault: a job of two nodes is told to meet at a loopback address
# topo: rxe
# expect: setting/rendezvous-on-loopback
# subject: MASTER_ADDR
# exit: 2
MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 doctor
