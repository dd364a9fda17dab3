/*
 * One frame again and again onto an interface, each at its time, and each of another flow than the one before.
 *
 * It runs on copies of a frame that the kernel makes real ones (BPF_F_TEST_XDP_LIVE_FRAMES), as often as it is told to: only so can what is sent be spread in time, as
 * each such call takes some milliseconds for itself (net/bpf/test_run.c).
 */
#include "kernel.bpf.h"

struct map schedule SECTION("maps");

enum {
    /* Of the source port in a frame of Ethernet, IPv4 and UDP, without options. */
    PORT_AT = 14 + 20,
    /* So often at most is the clock read before a frame is left out. */
    LOOKS = 2000,
};

/* repeat.rs has the same. */
struct schedule {
    u64 period; /* of a frame, in ns / 1024 */
    u64 wanted; /* frames */
    u64 begun_ns;
    u64 ended_ns;
    u64 sent;
    u32 interface;
    u16 first_port;
    u16 flows;
};

SECTION("xdp/repeat") int repeat(struct xdp_md *context)
{
    u32 first = 0;
    struct schedule *all = bpf_map_lookup_elem(&schedule, &first);
    u8 *frame = (u8 *)(u64)context->data;
    u8 *end = (u8 *)(u64)context->data_end;
    if (!all || all->sent >= all->wanted)
        return XDP_DROP;
    u64 now_ns = bpf_ktime_get_ns();
    if (!all->begun_ns)
        all->begun_ns = now_ns;
    u64 due_ns = all->begun_ns + (all->sent * all->period >> 10);
    for (int look = 0; look < LOOKS && now_ns < due_ns; look++)
        now_ns = bpf_ktime_get_ns();
    if (now_ns < due_ns)
        return XDP_DROP;
    if (all->flows && frame + PORT_AT + 2 <= end) {
        u16 port = all->first_port + all->sent % all->flows;
        frame[PORT_AT] = port >> 8;
        frame[PORT_AT + 1] = (u8)port;
    }
    all->sent++;
    all->ended_ns = now_ns;
    return bpf_redirect(all->interface, 0);
}
