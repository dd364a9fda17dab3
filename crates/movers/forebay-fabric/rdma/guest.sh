#!/bin/sh
# What the guest of `./x test-rdma` does: soft-RoCE on a veth pair, the suite of all byte links over it, and a short look at its speed; launch times.
set -u
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH HOME=/tmp
cd /tmp || exit 1
here=/run/forebay
address=10.77.0.1
counters=/sys/class/infiniband/rxe0/ports/1/hw_counters
failed=0

say() { echo "guest: $*"; }
fail() {
    say "FAILED: $*"
    failed=1
}
counter() { cat "$counters/$1" 2>/dev/null || echo 0; }
packets_of_lo() { cat /sys/class/net/lo/statistics/tx_packets; }

say "kernel $(uname -r), $(nproc) CPUs"
ip link set lo up
ip link add veth0 type veth peer name veth1 || exit 1
ip address add "$address/24" dev veth0
ip link set veth0 up
ip link set veth1 up
rdma link add rxe0 type rxe netdev veth0 || exit 1
# The first connection needs an active port.
tries=0
until rdma link show rxe0/1 | grep -q 'state ACTIVE'; do
    tries=$((tries + 1))
    [ "$tries" -lt 50 ] || { fail "rxe0 does not become active" && exit 1; }
    sleep 0.1
done
rdma link show
fi_info -p verbs -t FI_EP_MSG 2>/dev/null | head -n 8

if [ -e "$here/command" ]; then
    # For who looks into something by hand.
    sh "$here/command"
    exit
fi

# A CPU that is emulated is slow, and so is what it emulates: one test at a time.
say "the suite of byte links over fabric+verbs://$address"
sent=$(counter sent_pkts)
lo=$(packets_of_lo)
FOREBAY_VERBS_HOST=$address timeout "$FOREBAY_SUITE_S" \
    "$here/bytes" over_fabric_verbs:: --test-threads 1 --nocapture 2>&1 | tee suite.log
grep -q '^test result: ok\. [1-9]' suite.log || fail "the suite"
! grep -q '^skipped:' suite.log || fail "the suite skipped tests: $(grep -m 1 '^skipped:' suite.log)"
say "the suite sent $(($(counter sent_pkts) - sent)) RDMA packets, and $(($(packets_of_lo) - lo)) packets over lo"

# perf ROLE SIZE PORT: two processes, and what both say
perf() {
    url=fabric+verbs://$address:$3
    say "net perf $url, --role $1, messages of $2 bytes"
    sent=$(counter sent_pkts)
    lo=$(packets_of_lo)
    timeout 120 "$here/forebay" net perf "$url" --plain --role "$1" --message-bytes "$2" --duration 60s --format json >listener.json 2>listener.log &
    listener=$!
    FI_LOG_LEVEL=info FI_LOG_PROV=verbs \
        timeout 120 "$here/forebay" net perf "$url" --plain --role send --message-bytes "$2" --duration 5s --format json >sender.json 2>sender.log
    code=$?
    wait "$listener" || code=$?
    [ "$code" -eq 0 ] || fail "net perf $1 $2: exit code $code"
    cat sender.json listener.json
    grep -v '^libfabric:' sender.log listener.log
    packets=$(($(counter sent_pkts) - sent))
    over_lo=$(($(packets_of_lo) - lo))
    bytes=$(sed -n 's/.*"bytes": *\([0-9]*\).*/\1/p' listener.json | head -n 1)
    lines=$(grep -c '^libfabric:.*:verbs:' sender.log)
    say "${bytes:-0} bytes of payload; $packets RDMA packets sent, $over_lo packets over lo; $lines lines of the provider verbs in libfabric's log"
    # No packet of RoCE carries more than 4,096 bytes.
    [ "${bytes:-0}" -gt 0 ] && [ "$packets" -ge $((bytes / 4096)) ] || fail "RDMA did not carry the data"
    [ "$over_lo" -lt 100 ] || fail "something went over lo"
    [ "$lines" -gt 0 ] || fail "libfabric says nothing of the provider verbs"
}
perf recv 64Ki 7201
perf recv 1Ki 7202
perf echo 64 7203

# tdm KEPT [QUEUE]: so many of the two senders find that their bursts may be given ahead
tdm() {
    kept=$1
    shift
    say "tdm bench $*"
    # Emulated timers are late: a slow port, and as many bytes at once as it needs to keep its rate.
    timeout 120 "$here/forebay" tdm bench --senders 2 --port-rate 10M --port-burst 128Ki --window 40ms --duration 4s --repeat 1 --schemes slots-paced \
        --format json "$@" >tdm.json 2>tdm.log || fail "tdm bench: exit code $?"
    cat tdm.json tdm.log
    grep -q "\"launches_kept\":$kept," tdm.json || fail "other than $kept senders keep launch times"
    grep -q '"residual_items":0,' tdm.json || fail "the account of the session is open"
}
tdm 0
tdm 2 --sender-queue fq

say "all counters of rxe0"
for counter in "$counters"/*; do echo "  ${counter##*/} $(cat "$counter")"; done
exit "$failed"
