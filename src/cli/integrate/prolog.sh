#!/bin/bash
# Keeps jobs off a node that is not fit for them. Slurm runs it as root: before a job (Prolog), and now and then (HealthCheckProgram).
# A node is drained where rdma-doctor finds an error (status 2), with the finding as the reason, and for nothing else: warnings, open questions
# and the doctor's own failures cost no node. It never waits for other nodes.
set -u
export PATH=${PATH:+$PATH:}/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin:/opt/slurm/bin
doctor=@DOCTOR@
node=${SLURMD_NODENAME:-$(hostname -s)}
reason=$(timeout -k 5 50 "$doctor" check --alone --format slurm --deadline 30 2>/dev/null)
status=$?
if [ "$status" -ne 2 ]; then
    [ "$status" -le 3 ] || logger -t rdma-doctor "check ended with status $status" 2>/dev/null
    exit 0
fi
# Who drained it already had a reason to.
case $(timeout 10 sinfo --noheader --nodes="$node" --format=%T 2>/dev/null) in
    drain* | down* | fail* | maint*) ;;
    *) timeout 10 scontrol update NodeName="$node" State=DRAIN Reason="$reason" ;;
esac
logger -t rdma-doctor "$reason" 2>/dev/null
# A prolog that fails sends its job back to the queue; a health check has no job.
[ -z "${SLURM_JOB_ID:-}" ]
