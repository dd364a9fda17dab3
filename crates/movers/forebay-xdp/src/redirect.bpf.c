/*
 * Frames of a receive queue that has a socket go to it (AF_XDP); those of a queue without one go on, as if this program were not there.
 *
 * What was decided is counted here, by queue: whether the socket then had room is the kernel's word, and what came out of it the reader's.
 */
#include "kernel.bpf.h"

enum { QUEUES = 64 };

struct tally {
    u64 frames;
    u64 octets;
};

/* Of queue QUEUES and above: together. */
struct steered {
    struct tally redirected[QUEUES];
    struct tally passed[QUEUES + 1];
};

struct map sockets SECTION("maps");
struct map steered SECTION("maps");

INLINE void add(struct tally *tally, u64 octets) {
    tally->frames++;
    tally->octets += octets;
}

SECTION("xdp/redirect") int redirect(struct xdp_md *context) {
    u32 first = 0, queue = context->rx_queue_index;
    struct steered *counted = bpf_map_lookup_elem(&steered, &first);
    if (!counted)
        return XDP_PASS;
    u64 octets = bpf_xdp_get_buff_len(context);
    if (queue >= QUEUES) {
        add(&counted->passed[QUEUES], octets);
        return XDP_PASS;
    }
    if (bpf_redirect_map(&sockets, queue, XDP_PASS) != XDP_REDIRECT) {
        add(&counted->passed[queue], octets);
        return XDP_PASS;
    }
    add(&counted->redirected[queue], octets);
    return XDP_REDIRECT;
}
