#!/bin/sh
# get.sh: download rdma-doctor for this machine, verify it, and install it
#
#   export RDMA_DOCTOR_URL=https://downloads.example/rdma-doctor
#   curl -fsSL "$RDMA_DOCTOR_URL/get.sh" | sh
#
# RDMA_DOCTOR_URL      where the downloads are: a URL, or a directory of this machine
# RDMA_DOCTOR_VERSION  the version to install; default: the one that SHA256SUMS lists
# PREFIX               where to install; default: /usr/local for root, else ~/.local
#
# It needs tar, gzip, and sha256sum or shasum; for a URL also curl or wget.

fail() {
    echo "get.sh: $*" >&2
    exit 1
}

has() {
    command -v "$1" >/dev/null 2>&1
}

fetch() { # NAME FILE
    case $url in
        file://*) cp "${url#file://}/$1" "$2" ;;
        *://*)
            if has curl; then
                curl -fsSL -o "$2" "$url/$1"
            elif has wget; then
                wget -q -O "$2" "$url/$1"
            else
                fail "install curl or wget, or download the files and set RDMA_DOCTOR_URL to their directory"
            fi
            ;;
        *) cp "$url/$1" "$2" ;;
    esac || fail "cannot fetch $url/$1"
}

digest() { # FILE
    if has sha256sum; then
        sha256sum <"$1"
    elif has shasum; then
        shasum -a 256 <"$1"
    else
        fail "install sha256sum or shasum: the download cannot be verified without one"
    fi
}

# Sets version and sum: of the one tarball for this architecture that SHA256SUMS lists.
choose() { # SHA256SUMS
    version=''
    while read -r listed_sum listed_name; do
        listed_name=${listed_name#\*}
        case $listed_name in
            rdma-doctor-*-"$arch.tar.gz") ;;
            *) continue ;;
        esac
        listed_version=${listed_name#rdma-doctor-}
        listed_version=${listed_version%-"$arch.tar.gz"}
        if [ -n "$wanted" ] && [ "$listed_version" != "$wanted" ]; then
            continue
        fi
        [ -z "$version" ] || fail "$url has $version and $listed_version: set RDMA_DOCTOR_VERSION"
        version=$listed_version
        sum=$listed_sum
    done <"$1"
    [ -n "$version" ] || fail "$url has no rdma-doctor ${wanted:+$wanted }for $arch"
    case $version in
        *[!0-9A-Za-z.+~-]*) fail "SHA256SUMS has a version that is no version: $version" ;;
    esac
}

# A download that was cut ends before the last line, which alone calls this function.
main() {
    set -eu
    umask 022
    url=${RDMA_DOCTOR_URL:-}
    url=${url%/}
    [ -n "$url" ] || fail "set RDMA_DOCTOR_URL to the URL or the directory of the downloads"
    wanted=${RDMA_DOCTOR_VERSION:-}
    wanted=${wanted#v}
    [ "$(uname -s)" = Linux ] || fail "rdma-doctor runs on Linux, not on $(uname -s)"
    arch=$(uname -m)
    case $arch in
        x86_64 | aarch64) ;;
        *) fail "there is no rdma-doctor for $arch, only for x86_64 and aarch64" ;;
    esac
    prefix=${PREFIX:-}
    if [ -z "$prefix" ] && [ "$(id -u)" = 0 ]; then
        prefix=/usr/local
    elif [ -z "$prefix" ]; then
        [ -n "${HOME:-}" ] || fail "set PREFIX to the directory to install to: HOME is not set"
        prefix=$HOME/.local
    fi
    case $prefix in
        /*) ;;
        *) prefix=$PWD/$prefix ;;
    esac
    prefix=${prefix%/}

    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' HUP INT TERM
    fetch SHA256SUMS "$work/SHA256SUMS"
    choose "$work/SHA256SUMS"
    name=rdma-doctor-$version-$arch
    fetch "$name.tar.gz" "$work/$name.tar.gz"
    # This finds a damaged download. Who can replace the tarball can replace SHA256SUMS, too.
    found=$(digest "$work/$name.tar.gz")
    [ "${found%% *}" = "$sum" ] ||
        fail "$name.tar.gz is damaged: its SHA-256 is ${found%% *}, SHA256SUMS says $sum; nothing was installed"
    tar -C "$work" -xzf "$work/$name.tar.gz" || fail "cannot unpack $name.tar.gz"
    # (by sh: /tmp may be mounted noexec)
    sh "$work/$name/install.sh" "${prefix:-/}" >"$work/installed" ||
        fail "cannot install to $prefix: set PREFIX to a directory that you can write to"

    program=$prefix/bin/rdma-doctor
    runs=$("$program" --version) ||
        fail "$program does not start on this machine: it needs glibc 2.17 or newer"
    echo "installed $runs: $program, its manual and completions ($(wc -l <"$work/installed") files below $prefix)"
    in_path=$(command -v rdma-doctor || :)
    case ":${PATH:-}:" in
        *":$prefix/bin:"*)
            if [ "$in_path" = "$program" ]; then
                echo "$prefix/bin is in PATH: run rdma-doctor"
            else
                echo "$prefix/bin is in PATH, but $in_path comes before it"
            fi
            ;;
        *)
            echo "$prefix/bin is not in PATH; add it:"
            # shellcheck disable=SC2016 # The user's shell expands PATH.
            printf '    export PATH="%s:$PATH"\n' "$prefix/bin"
            ;;
    esac
}

main
