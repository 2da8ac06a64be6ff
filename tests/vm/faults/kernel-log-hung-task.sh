# fault: the kernel's log says that nvidia-smi hangs in the kernel; the line is injected through /dev/kmsg, nothing hangs
# topo: rxe
# expect: kernel/hung-task
# subject: hung-task nvidia-smi
# exit: 1
echo "<3>INFO: task nvidia-smi:4242 blocked for more than 120 seconds." >/dev/kmsg
doctor
