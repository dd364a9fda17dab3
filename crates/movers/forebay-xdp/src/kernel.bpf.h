/* What the program needs of the kernel's interface (include/uapi/linux/bpf.h), in words of our own: no header of the kernel or of a library is needed to build. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define NULL ((void *)0)

/* What the driver of the interface hands over; the verifier makes pointers of the numbers. */
struct xdp_md {
    u32 data;
    u32 data_end;
    u32 data_meta;
    u32 ingress_ifindex;
    u32 rx_queue_index;
    u32 egress_ifindex;
};

/* What a program at a socket sees of a frame; the verifier makes of these what the kernel has. */
struct __sk_buff {
    u32 len;
    u32 pkt_type;
    u32 mark;
    u32 queue_mapping;
    u32 protocol;
    u32 vlan_present;
    u32 vlan_tci;
};

enum xdp_action { XDP_DROP = 1, XDP_PASS = 2, XDP_REDIRECT = 4 };

/* The kernel knows it by this name, by the types that the loader gives with the map. */
struct bpf_spin_lock {
    u32 value;
};

enum { BPF_NOEXIST = 1 };

/* A map as the loader finds it: a symbol in the section "maps". What it is stands in programs.rs. */
struct map {
    u32 unused;
};

/* Calls of the kernel by their numbers. */
static void *(*const bpf_map_lookup_elem)(const void *map, const void *key) = (void *)1;
static long (*const bpf_map_update_elem)(const void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const bpf_map_delete_elem)(const void *map, const void *key) = (void *)3;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static long (*const bpf_redirect)(u32 interface, u64 flags) = (void *)23;
static long (*const bpf_skb_load_bytes)(const struct __sk_buff *context, u32 offset, void *to, u32 bytes) = (void *)26;
static long (*const bpf_redirect_map)(const void *map, u64 key, u64 otherwise) = (void *)51;
static long (*const bpf_xdp_adjust_tail)(struct xdp_md *context, int delta) = (void *)65;
static long (*const bpf_spin_lock)(struct bpf_spin_lock *lock) = (void *)93;
static long (*const bpf_spin_unlock)(struct bpf_spin_lock *lock) = (void *)94;
static void *(*const bpf_ringbuf_reserve)(const void *map, u64 bytes, u64 flags) = (void *)131;
static void (*const bpf_ringbuf_submit)(void *record, u64 flags) = (void *)132;
static void (*const bpf_ringbuf_discard)(void *record, u64 flags) = (void *)133;
static u64 (*const bpf_xdp_get_buff_len)(struct xdp_md *context) = (void *)188;
