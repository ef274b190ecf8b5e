#!/bin/bash
# Make the small image that tests of the Docker runtime run, from this machine's busybox (package busybox-static).
# Usage: busybox.sh [IMAGE:TAG]. Does nothing when the image is there.
set -euo pipefail
image=${1:-aistation-test/busybox:1}
docker image inspect "$image" >/dev/null 2>&1 && exit 0
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,tmp,etc,root,proc,sys,dev}
chmod 1777 "$root/tmp"
cp "$(command -v busybox)" "$root/bin/busybox"
for applet in $("$root/bin/busybox" --list); do
    [ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"
done
echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
echo 'root:x:0:' >"$root/etc/group"
tar -C "$root" -c . | docker import -c 'CMD ["sh"]' -c 'ENV PATH=/bin' - "$image" >/dev/null
