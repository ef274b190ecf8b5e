#!/bin/bash
# Makes the images that tests run, without a registry: debian:12-slim and python:3.11-slim, stand-ins of the same
# layout from this machine's own package sources and certificates. Those that exist are left alone.
# usage: base.sh [ENGINE'S CLI]
set -euo pipefail
docker=${1:-docker}
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

exists() { "$docker" image inspect "$1" >/dev/null 2>&1; }

# Certificates that this machine trusts and Debian's package does not bring, e.g. of a proxy that everything passes.
extra_certificates() {
    local bundle=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt} file known=$work/known
    mkdir -p "$work/ca"
    for file in /usr/share/ca-certificates/mozilla/*.crt; do fingerprint "$file"; done >"$known"
    awk -v d="$work" '/BEGIN CERT/{f=sprintf("%s/c%04d.pem",d,++n)} n{print>f} /END CERT/{close(f)}' "$bundle"
    for file in "$work"/c*.pem; do
        grep -qxF "$(fingerprint "$file")" "$known" || cp "$file" "$work/ca/$(basename "$file" .pem).crt"
    done
}

fingerprint() { openssl x509 -noout -fingerprint -sha256 -in "$1"; }

make_debian() {
    extra_certificates
    cat >"$work/docker-clean" <<'APT'
DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/*.bin || true"; };
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Acquire::Languages "none";
APT
    local sources=/etc/apt/sources.list.d/debian.sources
    [ -f "$sources" ] || sources=/etc/apt/sources.list
    mmdebstrap --quiet --mode=root --variant=apt --include=ca-certificates \
        --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
        --customize-hook="copy-in $work/docker-clean /etc/apt/apt.conf.d" \
        --customize-hook="cp $work/ca/*.crt \"\$1\"/usr/local/share/ca-certificates/ 2>/dev/null || true" \
        --customize-hook="chroot \"\$1\" update-ca-certificates >/dev/null" \
        --customize-hook='rm -rf "$1"/var/cache/apt/* "$1"/var/log/* "$1"/var/lib/apt/lists/*' \
        "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$work/base.tar" "$sources"
    "$docker" import -c 'CMD ["bash"]' "$work/base.tar" debian:12-slim >/dev/null
}

exists debian:12-slim || make_debian
exists python:3.11-slim || DOCKER_BUILDKIT=1 "$docker" build -q -t python:3.11-slim - <"$here/python.Dockerfile" >/dev/null
