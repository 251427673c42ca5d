#!/bin/sh
# Installs the programs of a release for this machine, after it has compared their checksum.
#   sh install.sh [DIRECTORY]     (default: /usr/local/bin for root, else ~/.local/bin)
# FRESHET_RELEASE is the address of the release's files, or a directory with them.
set -eu
release=${FRESHET_RELEASE:-https://github.com/freshet/freshet/releases/latest/download}
if [ "$(id -u)" = 0 ]; then to=${1:-/usr/local/bin}; else to=${1:-$HOME/.local/bin}; fi
system=$(uname -s | tr '[:upper:]' '[:lower:]')
case $(uname -m) in
x86_64 | amd64) arch=amd64 ;;
aarch64 | arm64) arch=arm64 ;;
*) echo "install.sh: there is no release for $(uname -m): build from source" >&2; exit 1 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fetch() {
  case $release in
  http://* | https://*) curl --fail --silent --show-error --location --output "$work/$1" "$release/$1" ;;
  *) cp "$release/$1" "$work/$1" ;;
  esac
}
fetch SHA256SUMS
line=$(grep -E "^[0-9a-f]{64}  freshet-[A-Za-z0-9.+-]+-$system-$arch\.tar\.gz\$" "$work/SHA256SUMS") || {
  echo "install.sh: the release has nothing for $system/$arch" >&2
  exit 1
}
archive=${line##* }
fetch "$archive"
if command -v sha256sum > /dev/null; then sum=$(sha256sum "$work/$archive"); else sum=$(shasum -a 256 "$work/$archive"); fi
if [ "${sum%% *}" != "${line%% *}" ]; then
  echo "install.sh: $archive does not have the checksum that SHA256SUMS says; nothing was installed" >&2
  exit 1
fi
tar xzf "$work/$archive" -C "$work"
mkdir -p "$to"
for program in freshet freshet-bench; do # moved into place, so that a running program is not written to
  cp "$work/${archive%.tar.gz}/$program" "$to/.$program.new"
  chmod 755 "$to/.$program.new"
  mv -f "$to/.$program.new" "$to/$program"
done
"$to/freshet" version
