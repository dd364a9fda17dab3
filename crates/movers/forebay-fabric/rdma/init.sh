#!/bin/busybox sh
# The first process of the guest of `./x test-rdma`: loads the modules, mounts the host's root without a right to write, and goes there.
bb=/bin/busybox
$bb mount -t devtmpfs devtmpfs /dev
$bb mount -t proc proc /proc
$bb mount -t sysfs sysfs /sys
say() { echo "guest: $*" >/dev/console; }

for module in virtio_pci 9pnet_virtio 9p veth crc32_generic rdma_rxe rdma_ucm bridge sch_fq sch_tbf; do
    $bb modprobe "$module" || say "the module $module cannot be loaded"
done
code=99
options=trans=virtio,version=9p2000.L,msize=524288,cache=loose,ro
if $bb mount -t 9p -o "$options" root /host; then
    for place in tmp run; do $bb mount -t tmpfs tmpfs /host/$place; done
    for place in dev proc sys; do $bb mount --bind /$place /host/$place; done
    $bb mkdir -p /dev/shm /host/run/forebay
    $bb mount -t tmpfs tmpfs /dev/shm
    if $bb mount -t 9p -o "$options" forebay /host/run/forebay; then
        $bb chroot /host /bin/sh /run/forebay/guest.sh >/dev/console 2>&1
        code=$?
    else
        say "the directory with the programs cannot be mounted"
    fi
else
    say "the host's root cannot be mounted"
fi
# By this line the host knows how it went.
say "exit code $code"
$bb sync
$bb poweroff -f
