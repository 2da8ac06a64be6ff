#!/bin/bash
# gpudirect.sh - RDMA writes from GPU to GPU (runs inside the VM, topology loop)
#
# The RDMA writes are soft-RoCE's, over two devices with a wire between them. The GPUs are stand-ins (tests/standin/cuda.rs), whose memory no processor finds at
# its address; that an adapter gets it is another one (tests/standin/verbs.rs), since soft-RoCE has neither DMA-BUF nor peer memory. By each way every value has
# to be right; without one, the doctor has to name what refused it. At last two processes are two nodes, whose pair is measured in both memories. What each
# measurement said stays in /out.
doctor=/run/rdma-doctor
cp /extra/bin/rdma-doctor $doctor && chmod 755 $doctor
out=/out
failed=0
fail() { echo "FAILED: $*"; failed=1; }

# A driver that seems to be loaded, with two GPUs on the PCI bus.
stage=/run/stage
gpu() { # NUMBER PCI
    local bridge=bus/store/devices/pci0000:00/0000:${2:5:2}:01.0
    mkdir -p $stage/$bridge/$2 $stage/driver/nvidia/gpus/$2
    echo 0x030200 >$stage/$bridge/$2/class
    echo 0x10de >$stage/$bridge/$2/vendor
    echo 0x2330 >$stage/$bridge/$2/device
    echo 0 >$stage/$bridge/$2/numa_node
    printf '\xde\x10\x30\x23' >$stage/$bridge/$2/config
    ln -s /sys/bus/pci/drivers/nvidia $stage/$bridge/$2/driver
    ln -s ../store/${bridge#bus/store/}/$2 $stage/bus/devices/$2
    : >/dev/nvidia$1
}
mkdir -p $stage/lib $stage/driver/nvidia $stage/bus/devices $stage/bus/drivers/nvidia
echo "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.90.07  Release Build  (dvs-builder@U16)" >$stage/driver/nvidia/version
echo "ModifyDeviceFiles: 1" >$stage/driver/nvidia/params
: >/dev/nvidiactl
: >/dev/nvidia-uvm
pcis=$(awk -F'"' '/^\[gpus\.[01]\]/ { of = 1 } of && /^pci/ { print $2; of = 0 }' /extra/standin/hgx-h100.toml)
number=0
for pci in $pcis; do gpu $number $pci; number=$((number + 1)); done
mount --bind $stage/driver /proc/driver && mount --bind $stage/bus /sys/bus/pci || { echo "no stage"; exit 1; }
cp /extra/standin/libstandin_cuda.so $stage/lib/libcuda.so.1
export CUDA_VISIBLE_DEVICES=0,1

bench() { # NAME MACHINE WAY COLLECTIVE options...
    local name=$1 machine=$2 way=$3
    shift 3
    measure $name $machine $way bench "$@" --warmups 0 --trials 1
}
measure() { # NAME MACHINE WAY SUBCOMMAND options...: its report to NAME.json; the status is the doctor's
    local name=$1 machine=$2 way=$3
    shift 3
    LD_LIBRARY_PATH=$stage/lib:$LD_LIBRARY_PATH LD_PRELOAD=/extra/standin/libstandin_verbs.so \
        RDMA_DOCTOR_STANDIN=/extra/standin/$machine.toml RDMA_DOCTOR_STANDIN_VERBS=$way \
        timeout 300 $doctor "$@" --backend verbs --force --device rxe0/1,rxe1/1 --message 64K \
        --record $out/$name.jsonl --no-redact --format json >"$out/$name.json" 2>"$out/$name.stderr"
}
why() { # NAME
    grep -o '"why": "[^"]*' "$out/$1.json" | tail -1
    tail -1 "$out/$1.stderr"
}
right() { # NAME: nothing is wrong, something was looked at
    local wrong checked
    wrong=$(sed -n 's/^ *"wrong": \([0-9]*\),*$/\1/p' "$out/$1.json" | sort -n | tail -1)
    checked=$(sed -n 's/^ *"checked": \([0-9]*\),*$/\1/p' "$out/$1.json" | sort -n | head -1)
    [ "$wrong" = 0 ] && [ "${checked:-0}" -gt 0 ]
}
says() { grep -q -- "$2" "$out/$1.json" || fail "$1: it does not say $2: $(why $1)"; }

for collective in send-recv all-gather broadcast gather scatter all-to-all; do
    bench $collective cuda-h100 dma-buf $collective --memory gpu --ranks 3 -b 2K -e 1M -f 512
    status=$?
    right $collective && [ $status = 0 ] || fail "$collective: status $status: $(why $collective)"
    says $collective '"way": "dma-buf"'
done
bench both cuda-h100 dma-buf send-recv --memory both --ranks 2 -b 1M --qps 2
status=$?
right both && [ $status = 0 ] || fail "both: status $status: $(why both)"
says both '"memory": "host"'
says both '"memory": "gpu"'
says both 'from GPU to GPU'
[ $failed = 1 ] || echo "ok: DMA-BUF: six collectives, and send-recv in both memories"

bench peer cuda-no-dma-buf peer-memory send-recv --memory gpu --ranks 2 -b 1M
status=$?
right peer && [ $status = 0 ] || fail "peer: status $status: $(why peer)"
says peer '"way": "peer-memory"'
says peer 'DMA_BUF_SUPPORTED is 0'
[ $failed = 1 ] || echo "ok: peer memory"

# GPUDirect RDMA taken away: the same operation from the host's memory, as an arm.
measure arms cuda-h100 dma-buf ablate --with gdr --only --ranks 2 --rounds 1 --size 1M
status=$?
[ $status -le 3 ] && [ -s $out/arms.json ] || fail "arms: status $status: $(why arms)"
replies() { grep -F '"bench":"collective"' $out/arms.jsonl | grep -F "\"arm\":\"$1\"" | grep -F '"ms":'; }
[ "$(replies baseline | grep -cF '"gpu_memory":true')" = 2 ] || fail "arms: the baseline's data is not on GPUs"
[ "$(replies gdr-off | wc -l)" = 2 ] || fail "arms: nothing was measured without GPUDirect RDMA"
! replies gdr-off | grep -qF '"gpu_memory":true' || fail "arms: the arm's data is on GPUs"
[ $failed = 1 ] || echo "ok: GPUDirect RDMA is taken away as an arm"

# Writes that never reach the GPU: nothing fails, and no value is right.
bench elsewhere cuda-h100 elsewhere send-recv --memory both --ranks 2 -b 1M
status=$?
[ $status = 2 ] || fail "elsewhere: status $status"
! right elsewhere || fail "elsewhere: all is right"
[ $failed = 1 ] || echo "ok: wrong values are seen"

# What the real library and the real driver say.
bench refused cuda-h100 none send-recv --memory both --ranks 2 -b 1M
status=$?
[ $status = 2 ] || fail "refused: status $status"
says refused 'ibv_reg_dmabuf_mr: '
says refused 'takes no DMA-BUF'
says refused 'ibv_reg_mr: bad address (EFAULT)'
bench old-verbs cuda-h100 old send-recv --memory gpu --ranks 2 -b 1M
says old-verbs 'libibverbs.so.1 has no ibv_reg_dmabuf_mr'
# The same name but for its first letter: a function of another name.
LC_ALL=C sed 's/cuMemGetHandleForAddressRange/xuMemGetHandleForAddressRange/g' $stage/lib/libcuda.so.1 >$stage/old
mv $stage/lib/libcuda.so.1 $stage/whole && mv $stage/old $stage/lib/libcuda.so.1
bench old-cuda cuda-h100 dma-buf send-recv --memory gpu --ranks 2 -b 1M
says old-cuda 'libcuda.so.1 has no cuMemGetHandleForAddressRange'
mv $stage/whole $stage/lib/libcuda.so.1
[ $failed = 1 ] || echo "ok: refused:" $(why refused)

# Two nodes by their names, each with one of the devices and a GPU of its own. What a busy processor holds up is no fault of either memory: the wire is slower.
for end in w0 w1; do ip netns exec wire tc qdisc add dev $end root tbf rate 8mbit burst 32k latency 500ms; done
export RDMA_DOCTOR_KEY="a key of two nodes"
port=7700
end() { # RANK MACHINE WAY options...
    local rank=$1 machine=$2 way=$3
    shift 3
    LD_LIBRARY_PATH=$stage/lib:$LD_LIBRARY_PATH LD_PRELOAD=/extra/standin/libstandin_verbs.so \
        RDMA_DOCTOR_STANDIN=/extra/standin/$machine.toml RDMA_DOCTOR_STANDIN_VERBS=$way CUDA_VISIBLE_DEVICES=$rank \
        unshare --uts bash -c 'hostname n$((1 + $1)); shift; exec "$@"' _ $rank \
        timeout 300 $doctor bench pairs --backend verbs --force --flow 0.5 --device rxe$rank/1 --rank $rank --nodes 2 --rendezvous 127.0.0.1:$port --format json "$@"
}
pairs() { # NAME MACHINE WAY WAY options...: the second node's way may be another one
    local name=$1 machine=$2 first=$3 second=$4
    shift 4
    port=$((port + 1))
    end 1 $machine $second "$@" >"$out/$name.other" 2>&1 &
    end 0 $machine $first --record $out/$name.jsonl --no-redact "$@" >"$out/$name.json" 2>"$out/$name.stderr"
    wait $!
}
pairs pairs-both cuda-h100 dma-buf dma-buf --memory both
says pairs-both '"way": "dma-buf"'
says pairs-both 'from GPU to GPU '
grep -q '"problem": "gpu' $out/pairs-both.json && fail "pairs-both: a GPU is accused:" $(grep '"what"' $out/pairs-both.json)
grep -q '"memory":"gpu"' $out/pairs-both.jsonl || fail "pairs-both: the recording has no ways of GPUs"
pairs pairs-gpu cuda-no-dma-buf peer-memory peer-memory --memory gpu
says pairs-gpu '"way": "peer-memory"'
says pairs-gpu '"memory": "gpu"'
pairs pairs-elsewhere cuda-h100 dma-buf elsewhere --memory both
says pairs-elsewhere '"problem": "gpu-fails"'
says pairs-elsewhere 'bytes arrived wrong: RDMA write from GID ::ffff:10.77.0.2 to GID ::ffff:10.77.1.2), those in the host.s memory arrive'
pairs pairs-refused cuda-h100 dma-buf none --memory both
says pairs-refused 'n2: rxe1/1 (GPU [0-9a-f:.]*) cannot register GPU memory.*ibv_reg_dmabuf_mr: .*takes no DMA-BUF.*ibv_reg_mr: bad address (EFAULT)'
says pairs-refused 'not tried: n2 has the memory of no GPU'
[ $failed = 1 ] || echo "ok: pairs:" $(grep -o '"what": "[^"]*' $out/pairs-refused.json | head -1)
exit $failed
