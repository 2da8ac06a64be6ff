# fault: /etc/hosts gives the host's own name 127.0.1.1, as Debian does, and a job of two nodes uses Gloo
# topo: rxe
# expect: setting/gloo-announces-loopback
# subject: *
# exit: 1
name=$(hostname)
grep -vw "$name" /etc/hosts >/tmp/hosts
echo "127.0.1.1 $name" >>/tmp/hosts
cat /tmp/hosts >/etc/hosts
WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 doctor
