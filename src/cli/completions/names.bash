
# Names of checks, areas and subjects: what the program and the machine have when somebody types.
_rdma__doctor_names() {
    local word=${COMP_WORDS[COMP_CWORD]} names=
    case "${COMP_WORDS[COMP_CWORD-1]}" in
        --only|--skip|waive) names=$("${COMP_WORDS[0]}" completions checks 2>/dev/null) ;;
        explain) names=$("${COMP_WORDS[0]}" completions checks 2>/dev/null; "${COMP_WORDS[0]}" completions areas 2>/dev/null) ;;
        --require) names=$("${COMP_WORDS[0]}" completions areas 2>/dev/null) ;;
        --subject) names=$(cd /sys/class/infiniband 2>/dev/null && printf '%s\n' */ports/* | sed 's|/ports||'; ls /sys/class/net 2>/dev/null) ;;
    esac
    if [ -n "$names" ] && [ "${COMP_WORDS[1]}" != ablate ] && [ "${word#-}" = "$word" ]; then
        COMPREPLY=($(compgen -W "$names" -- "$word"))
    else
        _rdma__doctor "$@"
    fi
}
complete -F _rdma__doctor_names -o bashdefault -o default rdma-doctor
