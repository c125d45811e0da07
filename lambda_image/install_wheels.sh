# install_wheels.sh REQUIREMENTS PLATFORM...: installs wheels into the layer, for the processor of the image and not of
# this machine. pip takes a wheel only of a platform that is named.
# shellcheck shell=sh
set -eu

case "$TARGETARCH" in
  arm64) machine=aarch64 ;;
  amd64) machine=x86_64 ;;
  *)
    echo "error: no wheels for the architecture '$TARGETARCH'; allowed: arm64, amd64" >&2
    exit 1
    ;;
esac
requirements=$1
shift
for platform in "$@"; do
  shift
  set -- "$@" --platform "${platform}_$machine"
done
python -m pip install --no-cache-dir --no-compile --no-deps --only-binary=:all: "$@" \
  --target layer/var/task --requirement "$requirements"
