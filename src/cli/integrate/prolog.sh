#!/bin/bash
# Keeps jobs off a node that is not fit for them. Slurm runs it as root: before a job (Prolog), after it (Epilog), and now and then (HealthCheckProgram).
#   0, 1         no fault found, or warnings: the job starts
#   2            an error: drains the node, with the finding as the reason
#   3, damage    a device, a library or the kernel did not answer: drains the node, with its name as the reason
#   3, else      something required was not examined: is logged, and drains if DRAIN_ON has the word undecided
#   64 and more  the doctor failed or ran out of time: is logged, and drains if DRAIN_ON has the word failure
# Areas: those that rdma-doctor-areas(7) requires; a site sets others as require in /etc/rdma-doctor/config.toml.
# A site sets DRAIN_ON="undecided failure" in /etc/default/rdma-doctor. It never waits for other nodes.
# With LAST_GOOD=/var/lib/rdma-doctor there the last recording without an error is kept in that directory, for root alone, and a reason says what
# changed since: "...; since 2026-11-26 14:02: nvidia driver 550.54.15 -> 570.86.10".
set -u
export PATH=${PATH:+$PATH:}/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin:/opt/slurm/bin
DRAIN_ON=${DRAIN_ON:-} LAST_GOOD=${LAST_GOOD:-}
[ ! -r /etc/default/rdma-doctor ] || . /etc/default/rdma-doctor
doctor=@DOCTOR@
node=${SLURMD_NODENAME:-$(hostname -s)}
given=(--alone)
now=$LAST_GOOD/now.jsonl.zst good=$LAST_GOOD/good.jsonl.zst
# Where nothing can be recorded the machine itself is examined, as without LAST_GOOD.
if [ -n "$LAST_GOOD" ] && mkdir -p -m 700 "$LAST_GOOD" 2>/dev/null &&
    timeout -k 5 50 "$doctor" record --no-redact --deadline 30 -o "$now" >/dev/null 2>&1; then
    given=("$now")
    [ ! -s "$good" ] || given+=(--baseline "$good")
fi
reason=$(timeout -k 5 50 "$doctor" check "${given[@]}" --format slurm --deadline 30 2>/dev/null)
status=$?
case $status:${given[0]} in [01]:"$now") mv -f "$now" "$good" ;; esac
case $status in
    0 | 1) exit 0 ;;
    2) drain=yes ;;
    3) case $reason in "rdma-doctor: damage: "*) drain=yes ;; *) drain=undecided ;; esac ;;
    *)
        drain=failure
        reason="rdma-doctor: check ended with status $status"
        ;;
esac
logger -t rdma-doctor "$reason" 2>/dev/null
case " yes $DRAIN_ON " in *" $drain "*) ;; *) exit 0 ;; esac
# A node that is drained already keeps the reason that it has.
case $(timeout 10 sinfo --noheader --nodes="$node" --format=%T 2>/dev/null) in
    drain* | down* | fail* | maint*) ;;
    *) timeout 10 scontrol update NodeName="$node" State=DRAIN Reason="$reason" ;;
esac
# A prolog that fails sends its job back to the queue; a health check has no job, and an epilog's job has ended.
[ -z "${SLURM_JOB_ID:-}" ] || [ "${SLURM_SCRIPT_CONTEXT:-prolog_slurmd}" != prolog_slurmd ]
