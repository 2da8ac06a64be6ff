#!/bin/bash
# invariants.sh - the doctor changes nothing on the machine that it examines (runs inside the VM)
#
# Before and after `check` and `record`: /proc/modules, everything in /dev (kind, mode, owner, major and
# minor), every file of the root, /run and /tmp (kind, mode, owner, size, time of change), the network and
# the RDMA links are the same. And a whole `check` under strace makes no system call but the ones that
# `allowed` knows to change nothing; every other one is printed.
#
# Without a doctor (/extra/bin/rdma-doctor) only the filter itself is tried.
doctor=/extra/bin/rdma-doctor
out=/out
failed=0
fail() { echo "CHANGED: $*"; failed=1; }

state() { # FILE
    {
        echo "# modules"; cat /proc/modules
        echo "# dev"; find /dev -exec stat -c '%n %F %a %u:%g %t:%T %N' {} + | sort
        echo "# files"; find / /run /tmp -xdev -not -path '/run/invariants*' \
            -exec stat -c '%n %F %a %u:%g %s %Z' {} + 2>/dev/null | sort
        echo "# mounts"; cat /proc/self/mounts
        echo "# limits of the kernel"; cat /proc/sys/kernel/hostname /proc/sys/kernel/core_pattern /proc/sys/kernel/tainted
        echo "# net"; ip -o address; ip rule; ip route show table all; ip -o link | sed 's/qlen.*//'
        # (the rdma tool loads ib_core, which is one of the things that must not happen)
        if [ -e /sys/module/ib_core ]; then echo "# rdma"; rdma link; rdma system; fi
    } >"$1" 2>&1
}

# From strace -f -yy: prints every line that could change something, and how many calls it saw (on
# stderr). What it does not know is printed too: a new call is allowed here or it does not happen.
allowed() { # TRACE
    gawk '
    BEGIN {
        split("read pread64 readv preadv lseek close close_range fstat newfstatat stat lstat statx statfs fstatfs " \
              "getdents64 getdents readlink readlinkat access faccessat faccessat2 getcwd chdir fchdir umask " \
              "mmap munmap mprotect mremap madvise brk getpid getppid getpgid getpgrp getsid gettid getuid geteuid getgid getegid " \
              "getresuid getresgid getgroups capget capset getrlimit getrusage getpriority times uname sysinfo time gettimeofday " \
              "clock_gettime clock_getres clock_nanosleep nanosleep getrandom getcpu " \
              "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigtimedwait rt_sigsuspend rt_sigpending sigaltstack " \
              "futex sched_yield sched_getaffinity sched_getscheduler sched_getparam set_tid_address set_robust_list rseq membarrier " \
              "poll ppoll select pselect6 epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd2 " \
              "timerfd_create timerfd_settime signalfd4 pipe pipe2 dup dup2 dup3 fcntl flock socketpair memfd_create " \
              "clone clone3 fork vfork wait4 waitid exit exit_group setpgid setsid pidfd_open " \
              "getsockname getpeername getsockopt recvfrom recvmsg recvmmsg recv shutdown " \
              "setitimer arch_prctl prctl restart_syscall fadvise64 posix_fadvise", names)
        for (i in names) harmless[names[i]] = 1
        # The numbers of RDMA_NLDEV_CMD_* that only get.
        split("1 5 6 9 10 11 12 13 14 15 17 19 20 21 22 23 24 25", gets)
        for (i in gets) rdma_get[gets[i]] = 1
        # The numbers of NFT_MSG_GET*.
        split("1 4 7 10 13 16 19 23", nft_gets)
        for (i in nft_gets) nft_get[nft_gets[i]] = 1
    }
    BEGIN { nameless = "</(dev/shm|tmp)/#[0-9]+" }
    # First reading: which calls were not answered because their process was killed.
    NR == FNR {
        if ($0 ~ /^[0-9]+ +\+\+\+ killed by SIGKILL/ && $1 in waits) unanswered[waits[$1]] = 1
        delete waits[$1]
        if ($0 ~ /<unfinished \.\.\.>$/) waits[$1] = FNR
        next
    }
    { line = $0; pid = $1; sub(/^[0-9]+ +/, "", line); ours[pid] = 1 }
    # which protocol a netlink socket speaks: strace can name it only where netlink_diag is loaded
    match(line, /^socket\(AF_NETLINK, [A-Z_|]+, NETLINK_[A-Z_0-9]+/) { opened[pid] = substr(line, RSTART, RLENGTH); sub(/.*, /, "", opened[pid]) }
    line ~ /^(socket\(|<\.\.\. socket resumed>).* = [0-9]+<NETLINK:/ { protocols[inode(line)] = opened[pid] }
    # memory that a process shares with its children, who open it by the number of its descriptor
    match(line, /memfd_create.* = [0-9]+<\/memfd:/) { fd = line; sub(/^.* = /, "", fd); sub(/<.*/, "", fd); memory["/proc/" pid "/fd/" fd] = 1 }
    # the clock is asked, not set: what it was asked with may come on the line that ends the call
    line ~ /^<\.\.\. (adjtimex|clock_adjtime) resumed>/ && line !~ /modes=0[,}]/ { print $0; offences++ }
    line ~ /^(\+\+\+|---)/ || line ~ /^<\.\.\. .* resumed>/ { next }
    line == "" { next }
    { calls++; ok = judge(line) || names_nothing(line); if (!ok) { print $0; offences++ } }
    # A process that is killed on its way into a call leaves whatever lies in its registers: a call of
    # any name, that names no open descriptor (strace shows what it is), no path and no structure but
    # an empty list.
    function names_nothing(l) { sub(/ *<unfinished \.\.\.>$/, "", l); sub(/\[\]/, "", l); return (FNR in unanswered) && l !~ /["<{[]/ }
    function is_near(l,    at) {
        if (!match(l, /inet_(addr\(|pton\(AF_INET6, )"[0-9a-f.:]+"/)) return 0
        l = substr(l, RSTART, RLENGTH - 1); at = index(l, "\"")
        return index(near, " " substr(l, at + 1) " ") > 0
    }
    function inode(text) { return match(text, /<NETLINK:\[[^\]]*\]>/) ? substr(text, RSTART, RLENGTH) : "" }
    function judge(l,    name, args, flags, fd, path, type, protocol, found) {
        # a process that was killed before strace could see what it was about to call
        if (l ~ /^\?\?\?\( *(<unfinished \.\.\.>)?/) return 1
        # a number for which no kernel has a call (it takes the low half), as strace reads it from
        # the registers of a process that was killed meanwhile
        if (match(l, /^syscall_0x[0-9a-f]+\(/)) {
            # (bit 30 marks calls of the x32 ABI, which has few numbers, too)
            found = and(strtonum(substr(l, 9, RLENGTH - 9)), 0xbfffffff)
            return found > 0xffff
        }
        if (!match(l, /^[a-z_0-9]+\(/)) return 0
        name = substr(l, 1, RLENGTH - 1); args = substr(l, RLENGTH + 1)
        if (name in harmless) return 1
        # whoever drops its own groups changes itself alone; strace also reads it from the registers
        # of a process that was killed on its way to another call
        if (name == "setgroups") return args ~ /^0, NULL/
        if (name ~ /^(open|openat|openat2)$/) {
            # an address in place of the path: the process was killed before strace could read it
            if (!match(args, /"[^"]*"/)) match(args, /0x[0-9a-f]+/)
            path = substr(args, RSTART + 1, RLENGTH - 2)
            flags = substr(args, RSTART + RLENGTH)
            sub(/\) *= .*/, "", flags)
            if (flags !~ /O_(WRONLY|RDWR|CREAT|TRUNC|APPEND|TMPFILE)|0x/ && flags ~ /O_(RDONLY|PATH)/) return 1
            # a rehearsal writes to files without a name, which are gone when they are closed
            if (flags ~ /O_TMPFILE/) return flags !~ /O_(CREAT|TRUNC)/ && path ~ /^\/(dev\/shm|tmp)$/
            if (path in memory) return flags !~ /O_(CREAT|TRUNC|TMPFILE)/
            # a character device changes nothing by being opened; whether it can be is the question
            return flags ~ /O_(RDWR|WRONLY)/ && flags !~ /O_(CREAT|TRUNC|TMPFILE)/ &&
                path ~ /^\/dev\/(null|infiniband\/(uverbs[0-9]+|umad[0-9]+|rdma_cm))$/
        }
        match(args, /^-?[0-9]+<[^,]*>/); fd = RSTART == 1 ? substr(args, 1, RLENGTH) : ""
        if (name ~ /^(write|writev|pwrite64)$/)
            # to the parent, to the report, and the legacy verbs commands, which are writes
            return fd ~ /^[12]</ || fd ~ nameless || fd ~ /<(pipe:|UNIX|anon_inode:|socket:|\/dev\/null|\/memfd:|\/dev\/infiniband\/uverbs)/
        if (name ~ /^(ftruncate|fallocate|fsync|fdatasync)$/) return fd ~ /<\/memfd:/ || fd ~ nameless
        if (name == "ioctl")
            # questions to terminals and sockets; verbs are ioctls of the device node
            return fd ~ /<\/dev\/infiniband\/uverbs/ || args ~ /, (TCGETS2?|TIOCGWINSZ|FIONREAD|FIOCLEX|FIONBIO|SIOCG[A-Z]+|NS_GET_[A-Z]+)/ ||
                # which question of ethtool it is, strace does not decode: that none of them changed
                # the network devices, the comparison of their state before and after tells
                args ~ /, SIOCETHTOOL,/
        if (name == "socket") return args ~ /^AF_(NETLINK|UNIX|INET6?), SOCK_(RAW|DGRAM|STREAM)/ || args ~ /^AF_PACKET, SOCK_DGRAM/
        # a rehearsal listens on any free port of an own address, and connects to that
        # (ARP on one interface)
        if (name == "bind") return args ~ /sa_family=AF_NETLINK/ || args ~ /sa_family=AF_PACKET, sll_protocol=htons\(ETH_P_ARP\)/ || args ~ /sin6?_port=htons\(0\)/
        if (name ~ /^(listen|accept4)$/) return fd ~ /<TCP/
        if (name == "setsockopt") return fd ~ /<(NETLINK|UNIX|TCP)/
        if (name == "connect") {
            if (args ~ /sa_family=AF_(UNIX|NETLINK)/) return 1
            return fd ~ /<TCP/ && match(args, /"[0-9a-f.:]+"/) && index(own, " " substr(args, RSTART + 1, RLENGTH - 2) " ")
        }
        # to gateways and neighbours that the kernel knows, an echo request, and ARP
        if (name == "sendto" && args ~ /sa_family=AF_PACKET, sll_protocol=htons\(ETH_P_ARP\)/) return 1
        if (name == "sendto" && args ~ /rdma-doctor asks whether you hear/)
            return is_near(args)
        if (name ~ /^(sendto|sendmsg|send|sendmmsg)$/) {
            if (fd ~ /<(UNIX|TCP)/) return 1
            # what has a path is no socket, and nothing is sent by it (ENOTSOCK): of a process that
            # was killed strace may read a descriptor that is gone
            if (fd ~ /^[0-9]+<\//) return 1
            if (fd !~ /<NETLINK/) return 0
            # every header in the message, not only the first; a request that only gets has a
            # number of its own in each protocol
            protocol = protocols[inode(fd)]; found = 0; path = args
            while (match(path, /nlmsg_type=(0x[0-9a-f]+|[A-Za-z_0-9<|]+)/)) {
                type = substr(path, RSTART + 11, RLENGTH - 11); path = substr(path, RSTART + RLENGTH)
                found = 1
                # what nf_tables has, and which extensions of iptables it knows (what resets a counter has a longer name)
                if (type ~ /^NFNL_SUBSYS_NFTABLES<<8\|NFT_MSG_GET[A-Z]+$|^NFNL_SUBSYS_NFT_COMPAT<<8\|NFNL_MSG_COMPAT_GET$/) continue
                if (type ~ /^[A-Za-z]/) { if (type ~ /^RTM_GET|^NLMSG_|^SOCK_DIAG_BY_FAMILY$|^nlctrl$/) continue; return 0 }
                type = strtonum(type)
                if (type <= 3) continue                                   # NLMSG_NOOP, ERROR, DONE
                if (protocol == "NETLINK_ROUTE" && type % 4 == 2) continue # RTM_GET*
                if (protocol == "NETLINK_RDMA" && int(type / 1024) == 5 && ((type % 1024) in rdma_get)) continue
                if (protocol == "NETLINK_SOCK_DIAG") continue
                if (protocol == "NETLINK_NETFILTER" && int(type / 256) == 10 && ((type % 256) in nft_get)) continue
                if (protocol == "NETLINK_NETFILTER" && type == 11 * 256) continue
                if (protocol == "NETLINK_GENERIC" && type == 16) continue  # nlctrl: which families there are
                # ETHTOOL_MSG_MODULE_EEPROM_GET, version 1, of the family whose number nlctrl gave
                if (protocol == "NETLINK_GENERIC" && args ~ /nlmsg_pid=[0-9]+\}, "\\x1f\\x01/) continue
                return 0
            }
            return found
        }
        if (name ~ /^(kill|tkill|tgkill|pidfd_send_signal)$/) {
            if (name == "pidfd_send_signal") return 1   # of a child: pidfd_open and clone give no other
            match(args, /^-?[0-9]+/); type = substr(args, 1, RLENGTH) + 0
            return ((type < 0 ? -type : type) in ours)
        }
        if (name ~ /^(setrlimit|prlimit64)$/) {
            if (args ~ /, NULL, / && name == "prlimit64") return 1
            return name == "setrlimit" || args ~ /^0, /
        }
        if (name ~ /^(adjtimex|clock_adjtime)$/) return args ~ /modes=0[,}]/ || args ~ /<unfinished \.\.\.>$/
        if (name ~ /^(setpriority|sched_setaffinity|sched_setscheduler|ioprio_set)$/) return args ~ /^([A-Z_]+, )?0[,)]/
        # the packet filter is listed by its own tools
        if (name == "execve" && args ~ /^"[^"]*\/(nft", \["[^"]*nft", "-j", ("-t", )?"list"|ip6?tables-(nft-|legacy-)?save")/) return 1
        if (name == "execve") return args ~ /^"(\/proc\/self\/exe|[^"]*\/rdma-doctor)"/ || (args ~ /^"/ && commands != "" && args ~ commands)
        return 0
    }
    END { printf "%d system calls, %d not allowed\n", calls, offences >"/dev/stderr" }
    ' commands="${COMMANDS:-}" near=" $({ ip neigh; ip -6 neigh; ip route; ip -6 route; } | grep -oE '([0-9]+\.){3}[0-9]+|[0-9a-f]*:[0-9a-f:]+' | sort -u | tr '\n' ' ')" own=" $(ip -o address | sed 's/.* inet6\? \([^/ ]*\).*/\1/' | tr '\n' ' ')" "$1" "$1"
}
trace() { # FILE command...
    local file=$1; shift
    strace -f -qq -yy -s 200 -o "$file" "$@"
}

mkdir -p /run/invariants
cd /run/invariants

# The filter has teeth: harmless commands pass, each of these others does not.
if [ -e /sys/class/infiniband/rxe0 ]; then
    export COMMANDS='^"/usr/s?bin/'
    for c in "cat /sys/class/infiniband/rxe0/ports/1/state" "ls /sys/class/infiniband" "ibv_devinfo" "rdma link" "rdma system" "ip link" "ip address"; do
        trace t $c >/dev/null 2>&1
        allowed t >bad 2>/dev/null
        [ ! -s bad ] || { echo "the filter refuses the harmless: $c"; head -5 bad; failed=1; }
    done
    touch present
    for c in "touch new" "touch present" "mkdir newdir" "rm present" "chmod 600 ." "chown 1 ." "mv newdir newer" "ln -s a b" "mknod n c 1 3" \
        "modprobe dummy" "rmmod dummy" "mount -t tmpfs none /mnt" "umount /mnt" "hostname n9" "hostname n0" \
        "ip link set lo mtu 65000" "ip link set lo mtu 65536" "ip address add 127.0.0.9/8 dev lo" "ip address del 127.0.0.9/8 dev lo" \
        "sysctl -qw vm.swappiness=61" "rdma link delete rxe0" "rdma link add rxe0 type rxe netdev eth0" "kill -0 1"; do
        command -v ${c%% *} >/dev/null || continue
        trace t $c >/dev/null 2>&1
        allowed t >bad 2>/dev/null
        [ -s bad ] || { echo "the filter lets through: $c"; failed=1; }
    done
    unset COMMANDS
    rm -rf /run/invariants/*
    [ $failed = 1 ] || echo "ok: the strace filter tells harmless commands from others"
fi
[ -x $doctor ] || { echo "no rdma-doctor here"; exit $failed; }

unchanged() { # NAME: compares the machine with /run/invariants/before
    state after
    if diff before after >difference; then echo "ok: $1 changed nothing"
    else fail "$1:"; head -40 difference; fi
}
ran() { # NAME STATUS: a doctor that did not run changes nothing either
    case $2 in 0 | 1 | 2 | 3) ;; *) echo "FAILED: $1 ended with status $2"; tail -5 stderr; failed=1 ;; esac
}
state before
state after; diff before after >difference || { echo "FAILED: the comparison itself changes:"; head -20 difference; failed=1; }
$doctor check --format json >report 2>stderr; ran check $?
unchanged check
$doctor record --no-redact -o /run/invariants/node.jsonl >/dev/null 2>stderr; ran record $?
unchanged record

traced() { # NAME command...: a run, call by call
    local name=$1; shift
    # (a probe ends when its standard input does: its parent is gone)
    trace trace "$@" < <(sleep 400) >report 2>stderr; ran "$name under strace" $?
    allowed trace >bad 2>count
    if [ -s bad ]; then
        fail "system calls of $name that could change something ($(cat count)):"; head -40 bad
    else echo "ok: $name: $(cat count)"; fi
    cp bad "$out/" 2>/dev/null
}
# With rules of each implementation: what lists them loads nothing that is missing.
nft add table inet site && nft 'add chain inet site in { type filter hook input priority 0; policy accept; }' &&
    nft add rule inet site in udp dport 4791 limit rate 10/second accept &&
    iptables-nft -A INPUT -p tcp -m multiport --dports 22,111 -m comment --comment x -j ACCEPT &&
    iptables-nft -A OUTPUT -p udp -m conntrack --ctstate NEW -j ACCEPT &&
    iptables-legacy -t raw -A OUTPUT -p udp --dport 4791 -j ACCEPT || { echo "FAILED: no rules here: $(nft list ruleset 2>&1 | head -3)"; failed=1; }
state before
$doctor check --format json >report 2>stderr; ran "check with rules" $?
unchanged "check with rules"
traced "the firewall's probe" $doctor __probe firewall --started 0
for command in nft iptables-nft-save iptables-legacy-save; do
    grep -q "execve(\"[^\"]*/$command\"" trace || { echo "FAILED: $command was not asked"; failed=1; }
done
nft flush ruleset; iptables-legacy -t raw -F
traced check $doctor check --deadline 300 --format json
for call in 'O_TMPFILE' 'accept4(' ' listen('; do
    grep -qF "$call" trace || { echo "FAILED: the rehearsal is not in the trace: $call"; failed=1; }
done
[ ! -e /sys/module/ib_core ] || [ -z "$(rdma resource show 2>/dev/null | grep -E ' (ctx|mr) [1-9]')" ] || fail "objects of verbs are left: $(rdma resource show)"
[ "$(grep -c -E ' (execve|openat)\(' trace)" -gt 10 ] || { echo "FAILED: the trace is empty"; failed=1; }
cp trace "$out/" 2>/dev/null

# What follows does not depend on the machine's RDMA: one machine is enough.
[ -e /sys/class/infiniband/rxe0 ] || exit $failed

# Few processes and threads, by the limit of a control group: it says less, or ends as its own failure in one line.
few=/sys/fs/cgroup/few
echo +pids >/sys/fs/cgroup/cgroup.subtree_control; mkdir -p $few
for most in 1 2 4 8; do
    echo $most >$few/pids.max
    (echo $BASHPID >$few/cgroup.procs && exec $doctor check --deadline 60 --quiet) >said 2>stderr; status=$?
    case $status in
        0 | 1 | 2 | 3) ;;
        70) [ "$(wc -l <stderr)" = 1 ] || { echo "FAILED: with $most processes it says more than one line:"; cat stderr; failed=1; } ;;
        *) echo "FAILED: status $status with $most processes"; cat said stderr; failed=1 ;;
    esac
    ! grep -q panicked stderr || { echo "FAILED: it panics with $most processes"; cat stderr; failed=1; }
done
rmdir $few && echo "ok: few processes in its control group"

# The time of day jumps by a day, there and back: no deadline ends early or never, and the verdict is the same.
$doctor check --quiet >steady 2>&1; steady=$?
while sleep 0.01; do
    date -s "@$(($(date +%s) + ${jump:=86400}))" >/dev/null; jump=$((-jump))
done &
jumper=$!
for run in 1 2 3 4 5; do
    timeout -s KILL 120 $doctor check --quiet >jumped 2>&1; status=$?
    [ $status = $steady ] || { echo "FAILED: status $status where the clock jumps, $steady where it does not:"; cat steady jumped; failed=1; }
done
kill $jumper
echo "ok: five runs under a clock that jumps"
exit $failed
