#!/bin/sh
# install.sh [PREFIX]: copies the program, its manual and its completions below PREFIX (/usr/local).
# It needs no package manager. To remove it: delete the files that it names.
set -eu
prefix=${1:-/usr/local}
case $prefix in
    /*) ;;
    *) prefix=$PWD/$prefix ;;
esac
cd "$(dirname "$0")"
find bin share -type f | while read -r file; do
    mkdir -p "$prefix/$(dirname "$file")"
    # A program that runs cannot be overwritten, only replaced.
    cp -p "$file" "$prefix/$file.new"
    mv -f "$prefix/$file.new" "$prefix/$file"
    echo "$prefix/$file"
done
