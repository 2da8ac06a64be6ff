#!/bin/sh
# install.sh [PREFIX]: copies the program, its manual and its completions below PREFIX (/usr/local).
# It needs no package manager. To remove it: delete the files that it names.
set -eu
cd "$(dirname "$0")"
prefix=${1:-/usr/local}
find bin share -type f | while read -r file; do
    mkdir -p "$prefix/$(dirname "$file")"
    cp -p "$file" "$prefix/$file"
    echo "$prefix/$file"
done
