/*
 * How the program at packet sockets looks at a frame, finds its entry and locks it.
 *
 * The verifier lets a socket filter use no bpf_spin_lock. Counts alone could do without a lock, each in a word that is added to as a whole, but times and flags would not be
 * of the same frames then, and a word for both frames and octets is full soon. So the lock is our own: a word in the entry that is taken by compare-and-swap and given
 * back by exchange, both of which order all memory around them.
 *
 * - No program may wait for long: the one that has the lock may have lost its CPU (of a virtual machine). After TURNS attempts the frame goes up, and has the entry closed by
 *   a word that needs no lock (`contended`): what comes later is not counted either. That is exact, as what was counted before stays until user space takes it; it costs
 *   that the flow comes up until it is lent again. User space's hand tries again.
 * - The kernel would put zeros into the lock if the entry were the element of a hash: it copies the whole value there when it gives an element to another flow. So the
 *   hash has the number of a slot alone, and entries are slots of an array, which are never written over. User space knows which slots are free. A program that has found a slot
 *   in the hash before it was given to another flow locks it, sees another key there (or GONE), and lets the frame go up.
 */
#pragma once

#include "frame.bpf.h"

/* Keys to slots, and slots to entries. */
struct map flows SECTION("maps");
struct map entries SECTION("maps");

enum {
    /* Ethernet, tags, IPv6 and TCP without options, rounded up. */
    LOOK_BYTES = 96,
    TURNS = 64,
};

#define ALL_BYTES 0xffffffffu

/* Copies the first bytes of a frame: it may be in many buffers, and a socket filter may not read them where they are. */
INLINE void look_at(struct __sk_buff *context, u8 *bytes, struct look *look) {
    u32 there = context->len;
    look->frame_bytes = there;
    look->has_hidden_tag = context->vlan_present != 0;
    look->hidden_tag = context->vlan_tci;
    if (there > LOOK_BYTES)
        there = LOOK_BYTES;
    look->at = look->end = bytes;
    if (there < ETHERNET_BYTES || bpf_skb_load_bytes(context, 0, bytes, there))
        return;
    look->end = bytes + there;
}

INLINE struct entry *find(const struct key *key, u32 *slot) {
    u32 *number = bpf_map_lookup_elem(&flows, key);
    if (!number)
        return NULL;
    *slot = *number;
    return bpf_map_lookup_elem(&entries, slot);
}

INLINE long put(const struct key *key, u32 slot) { return bpf_map_update_elem(&flows, key, &slot, BPF_NOEXIST); }

INLINE int lock(struct entry *entry) {
    for (int turn = 0; turn < TURNS; turn++)
        if (__sync_val_compare_and_swap(&entry->lock.value, 0, 1) == 0)
            return 1;
    return 0;
}

INLINE void unlock(struct entry *entry) { __sync_lock_test_and_set(&entry->lock.value, 0); }

INLINE void contend(struct entry *entry) { __sync_fetch_and_or(&entry->contended, 1); }

INLINE int is_contended(const struct entry *entry) { return *(const volatile u32 *)&entry->contended != 0; }
