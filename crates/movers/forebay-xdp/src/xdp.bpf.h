/* How the program on an interface looks at a frame, finds its entry and locks it. */
#pragma once

#include "frame.bpf.h"

/* Keys to entries. The kernel locks an entry, and leaves the lock alone when it puts another flow there. */
struct map flows SECTION("maps");

INLINE void look_at(struct xdp_md *context, struct look *look) {
    look->at = (const u8 *)(long)context->data;
    look->end = (const u8 *)(long)context->data_end;
    look->frame_bytes = bpf_xdp_get_buff_len(context);
}

INLINE struct entry *find(const struct key *key, u32 *slot) { return bpf_map_lookup_elem(&flows, key); }

INLINE long put(const struct key *key, u32 slot) {
    struct entry entry = {};
    return bpf_map_update_elem(&flows, key, &entry, BPF_NOEXIST);
}

INLINE int lock(struct entry *entry) {
    bpf_spin_lock(&entry->lock);
    return 1;
}

INLINE void unlock(struct entry *entry) { bpf_spin_unlock(&entry->lock); }

INLINE void contend(struct entry *entry) {}

INLINE int is_contended(const struct entry *entry) { return 0; }

/* Cuts a frame. What cannot be cut goes up whole. */
INLINE void trim(struct xdp_md *context, const struct look *look, u32 keep) {
    if (keep < look->frame_bytes)
        bpf_xdp_adjust_tail(context, (int)keep - (int)look->frame_bytes);
}
