# fault: none, examined by a user without any right
# topo: rxe
# expect: no-fault-found
# exit: 0
chmod 777 /out
setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all doctor
