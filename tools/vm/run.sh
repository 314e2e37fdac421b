#!/usr/bin/env bash
# Runs the limits part of the tests in a virtual machine that has what few build machines have: a
# Debian kernel of the stable release with one cgroup version 2 hierarchy and all its controllers, and a
# clock that may be set.
#
#   tools/vm/run.sh BUILD_DIRECTORY      ('./dev vm' builds, and calls this)
#
# The kernel is Debian's package, fetched by apt-get and unpacked beside the images, not installed.
# The machine is qemu's, with the processor emulated (slow, and needs no /dev/kvm); GLOVEBOX_VM_ACCEL=kvm
# uses the host's processor. It has no network and no disk but an image that is thrown away.
# The tests run as root, and as a user with a cgroup of their own: inside.sh.
#
# Exit code 0: every test passed. What the machine said is in BUILD_DIRECTORY/vm/console.log.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "${1:?the build directory is missing}" && pwd)
place=$build/vm
patience=${GLOVEBOX_VM_SECONDS:-900}

die() {
  printf 'vm: %s\n' "$*" >&2
  exit 1
}

for program in glovebox glovebox-launcher glovebox-probe glovebox_kernel_test; do
  [[ -x $build/$program ]] || die "$build/$program is missing; build it first"
done
for program in qemu-system-x86_64 mke2fs busybox dpkg-deb setpriv; do
  command -v "$program" >/dev/null || [[ -x /usr/sbin/$program ]] || die "$program is missing"
done

# The kernel package that the meta package points at now, unpacked once for each version.
fetch_kernel() {
  local package
  package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
  [[ -n $package ]] || die "apt knows no linux-image-cloud-amd64 (run 'apt-get update')"
  kernel=$place/$package
  [[ ! -e $kernel/unpacked ]] || return 0
  rm -rf -- "$kernel"
  mkdir -p "$kernel"
  (cd "$kernel" && apt-get download -q "$package" >/dev/null) || die "apt-get could not fetch $package"
  dpkg-deb -x "$kernel"/*.deb "$kernel"
  rm -f -- "$kernel"/*.deb
  touch "$kernel/unpacked"
}

# copy_program FILE...: with the libraries that it needs, at their own paths below $root.
copy_program() {
  local file library
  for file in "$@"; do
    install -D -m 0755 "$(readlink -f "$file")" "$root/usr/bin/$(basename "$file")"
    # A static program has no list, and needs none.
    for library in $(ldd "$file" 2>/dev/null | sed -n 's|^[^/]*\(/[^ ]*\) .*|\1|p'); do
      install -D -m 0755 "$(readlink -f "$library")" "$root/usr/${library#/usr/}"
    done
  done
}

# A small Debian: what the tests run inside boxes is the real thing, the rest is busybox.
make_root() {
  root=$place/root
  rm -rf -- "$root"
  mkdir -p "$root"/{dev,proc,sys,tmp,run,root,home,etc,usr/bin,usr/sbin,usr/lib,usr/lib64}
  local link
  for link in bin sbin lib lib64; do ln -s "usr/$link" "$root/$link"; done
  copy_program /bin/bash /bin/dash /bin/cat /bin/true /bin/false /bin/sleep /bin/touch /bin/ls \
    /bin/pwd /bin/rm /bin/echo /bin/mkdir /usr/bin/head /usr/bin/tail /usr/bin/id /usr/bin/env \
    /usr/bin/setpriv "$(command -v busybox)" "$build/glovebox_kernel_test"
  ln -s dash "$root/usr/bin/sh"
  printf 'root:x:0:0:root:/root:/bin/sh\nuser:x:65533:65533:user:/home:/bin/sh\n' >"$root/etc/passwd"
  printf 'root:x:0:\nuser:x:65533:\n' >"$root/etc/group"
  install -D -m 0755 -t "$root/opt" "$build"/glovebox{,-launcher,-probe} "$here"/{inside,limits,clocks}.sh
  truncate -s 512M "$place/root.ext4.part"
  /usr/sbin/mke2fs -q -F -t ext4 -d "$root" "$place/root.ext4.part"
  mv "$place/root.ext4.part" "$place/root.ext4"
}

# The kernel reads this first: the drivers for the disk, and the step onto it.
make_initramfs() {
  local early=$place/early module modules
  modules=$(echo "$kernel"/lib/modules/*)
  rm -rf -- "$early"
  mkdir -p "$early"/{bin,dev,proc,modules,new}
  install -m 0755 "$(command -v busybox)" "$early/bin/busybox"
  for module in virtio/virtio virtio/virtio_ring virtio/virtio_pci_modern_dev \
    virtio/virtio_pci_legacy_dev virtio/virtio_pci block/virtio_blk; do
    cp "$modules/kernel/drivers/$module.ko" "$early/modules/"
  done
  cp "$modules/kernel/fs/overlayfs/overlay.ko" "$early/modules/"
  install -m 0755 "$here/early.sh" "$early/init"
  (cd "$early" && find . | busybox cpio -o -H newc -R 0:0 2>/dev/null | gzip -1) >"$place/early.cpio.gz"
}

start_machine() {
  # Nothing of the host is handed in but the images; the disk's changes are thrown away.
  timeout --foreground "$patience" qemu-system-x86_64 \
    -machine q35 -cpu max -accel "${GLOVEBOX_VM_ACCEL:-tcg}" -smp 2 -m 2048 \
    -nodefaults -no-user-config -display none -no-reboot -serial "file:$place/console.log" \
    -kernel "$kernel"/boot/vmlinuz-* -initrd "$place/early.cpio.gz" \
    -drive "file=$place/root.ext4,if=virtio,format=raw,snapshot=on" \
    -append "console=ttyS0 quiet panic=-1 random.trust_cpu=on vm.tests=${GLOVEBOX_VM_TESTS:-*Limits*}" </dev/null ||
    die "the machine did not end by itself within $patience s (see $place/console.log)"
}

mkdir -p "$place"
fetch_kernel
make_root
make_initramfs
rm -f -- "$place/console.log"
start_machine
tr -d '\r' <"$place/console.log" | sed -n 's/^vm: //p'
tr -d '\r' <"$place/console.log" | grep -qx 'vm: all passed' ||
  die "not everything passed; the whole output is in $place/console.log"
