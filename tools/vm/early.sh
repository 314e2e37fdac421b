#!/bin/busybox sh
# The first program of the virtual machine: loads the drivers for the disk and goes on from there. A
# root that can be pivoted away from is needed, and the kernel's first one cannot.
bb=/bin/busybox
$bb mount -t proc proc /proc
$bb mount -t devtmpfs devtmpfs /dev
for module in virtio virtio_ring virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk overlay; do
  $bb insmod /modules/$module.ko || echo "vm: cannot load $module"
done
tries=0
until [ -b /dev/vda ] || [ $tries -ge 50 ]; do
  $bb sleep 0.1
  tries=$((tries + 1))
done
$bb mount -t ext4 /dev/vda /new || {
  echo "vm: cannot mount the disk"
  $bb poweroff -f
}
$bb umount /proc
$bb mount --move /dev /new/dev
exec $bb switch_root /new /opt/inside.sh
