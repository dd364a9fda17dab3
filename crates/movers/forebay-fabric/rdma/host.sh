#!/bin/sh
# Messaging over RDMA without such hardware, as `./x test-rdma`: Debian's kernel in QEMU, soft-RoCE (`rdma_rxe`) inside of it, and this machine's root,
# read-only, as its own. What the guest says is kept in `rdma/*.log` of the target directory.
#
# host.sh BYTES FOREBAY TARGET: the suite's program, the product's program, the target directory. FOREBAY_RDMA_KERNEL names the directory of an
# unpacked kernel package (with boot/, lib/modules/ and bin/busybox), FOREBAY_RDMA_LIMIT_S how long the guest may take. With --check alone it says why it
# would be skipped, or nothing.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
work=${3:-}/rdma
limit_s=${FOREBAY_RDMA_LIMIT_S:-1500}
kernel=${FOREBAY_RDMA_KERNEL:-$work/kernel}
modules="virtio_pci 9pnet_virtio 9p veth crc32_generic rdma_rxe rdma_ucm bridge sch_fq sch_tbf"
scratch=
qemu=

say() { printf 'test-rdma: %s\n' "$*" >&2; }
fail() {
    say "error: $*"
    exit 1
}
skip() {
    say "skipped: $*"
    exit 0
}

# What is still there when this ends, however it ends.
clean_up() {
    trap '' INT TERM HUP
    [ -z "$qemu" ] || { kill "$qemu" 2>/dev/null && wait "$qemu" 2>/dev/null; } || :
    [ -z "$scratch" ] || rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# unpack PACKAGE: from Debian's archive into $kernel, without installing anything
unpack() {
    say "downloading $1"
    (cd "$scratch" && apt-get -q download "$1" >&2) || skip "apt-get cannot download $1; \`apt-get update\` may help"
    dpkg -x "$scratch/$1"_*.deb "$kernel.new"
    rm "$scratch/$1"_*.deb
}

get_kernel() {
    [ ! -e "$kernel/lib/modules" ] || return 0
    [ "$kernel" = "$work/kernel" ] || fail "FOREBAY_RDMA_KERNEL=$kernel has no lib/modules: name the directory where a kernel's package is unpacked"
    image=$(LC_ALL=C apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/^  Depends: \(linux-image-[0-9].*\)/\1/p')
    [ -n "$image" ] || skip "apt knows no linux-image-amd64; FOREBAY_RDMA_KERNEL can name an unpacked kernel package"
    rm -rf "$kernel.new"
    unpack "$image"
    unpack busybox-static
    for version in "$kernel.new"/lib/modules/*; do
        say "looking through the modules of ${version##*/}"
        "$kernel.new/bin/busybox" depmod -b "$kernel.new" "${version##*/}"
    done
    mv "$kernel.new" "$kernel"
}

# The few modules, with those that they need, and busybox.
make_initramfs() {
    tree=$scratch/initramfs
    from=$(echo "$kernel"/lib/modules/*)
    to=$tree/lib/modules/${from##*/}
    mkdir -p "$tree/bin" "$tree/dev" "$tree/proc" "$tree/sys" "$tree/host" "$to"
    cp "$kernel/bin/busybox" "$tree/bin/"
    cp "$here/init.sh" "$tree/init"
    chmod +x "$tree/init"
    for module in $modules; do
        line=$(grep "/$module\.ko[^:]*:" "$from/modules.dep") || fail "the kernel has no module $module"
        for file in $(echo "$line" | tr -d ':'); do
            mkdir -p "$to/$(dirname -- "$file")"
            cp "$from/$file" "$to/$file"
        done
    done
    "$tree/bin/busybox" depmod -b "$tree" "${from##*/}"
    (cd "$tree" && find . | bin/busybox cpio -o -H newc 2>/dev/null) | gzip -1 >"$scratch/initramfs.gz"
}

[ "$(uname -m)" = x86_64 ] || skip "the guest is an x86_64; this machine is $(uname -m)"
need=
command -v qemu-system-x86_64 >/dev/null || need="$need qemu-system-x86"
command -v rdma >/dev/null || need="$need iproute2"
[ -e /usr/lib/x86_64-linux-gnu/libfabric.so.1 ] || need="$need libfabric1"
[ -e /etc/libibverbs.d/rxe.driver ] || need="$need ibverbs-providers"
[ -z "$need" ] || skip "missing:$need; as root: apt-get install --no-install-recommends$need"
if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
    [ -n "${FOREBAY_RDMA_KERNEL:-}" ] || skip "without apt-get, FOREBAY_RDMA_KERNEL has to name an unpacked kernel package"
fi
# Asked for the requirements alone.
[ "$1" != --check ] || exit 0

mkdir -p "$work"
scratch=$(mktemp -d "$work/run-XXXXXX")
get_kernel
make_initramfs
mkdir "$scratch/share"
cp "$1" "$scratch/share/bytes"
cp "$2" "$scratch/share/forebay"
sed "s/\"\$FOREBAY_SUITE_S\"/$((limit_s * 2 / 3))/" "$here/guest.sh" >"$scratch/share/guest.sh"
[ -z "${FOREBAY_RDMA_COMMAND:-}" ] || printf '%s\n' "$FOREBAY_RDMA_COMMAND" >"$scratch/share/command"

log=$work/$(date -u +%Y%m%dT%H%M%SZ).log
: >"$log"
say "booting $(echo "$kernel"/boot/vmlinuz-*) in QEMU; the log is $log"
share() { printf 'local,id=%s,path=%s,security_model=none,readonly=on,multidevs=remap' "$1" "$2"; }
# Emulated, not virtualised: inside of a virtual machine KVM may hang. The kernel checks its timer against loops that a busy host makes too short.
timeout --foreground "$limit_s" qemu-system-x86_64 -accel tcg,thread=multi -machine q35 -cpu max -smp 2 -m 2048 \
    -nodefaults -no-user-config -display none -no-reboot -serial stdio \
    -kernel "$kernel"/boot/vmlinuz-* -initrd "$scratch/initramfs.gz" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check" \
    -fsdev "$(share root /)" -device virtio-9p-pci,fsdev=root,mount_tag=root \
    -fsdev "$(share forebay "$scratch/share")" -device virtio-9p-pci,fsdev=forebay,mount_tag=forebay \
    </dev/null >"$log" 2>&1 &
qemu=$!
# Shows what comes until QEMU has ended.
tail -n +1 -f --pid="$qemu" "$log" >&2 &
shown=$!
code=0
wait "$qemu" || code=$?
qemu=
wait "$shown" || :
[ "$code" -ne 124 ] || fail "the guest was not done after $limit_s s (FOREBAY_RDMA_LIMIT_S); see $log"
[ "$code" -eq 0 ] || fail "QEMU ended with $code; see $log"
answer=$(sed -n 's/^guest: exit code \([0-9]*\).*/\1/p' "$log" | tail -n 1)
[ -n "$answer" ] || fail "the guest went down without a word; see $log"
[ "$answer" -eq 0 ] || fail "the guest's checks failed; see the lines with FAILED in $log"
say "all passed over the provider verbs; the log is $log"
