/* What the program and user space share. abi.rs has the same in Rust; sizes and places are held on both sides. */
#pragma once

#include "kernel.bpf.h"

/* A flow: the lesser of (address, port) is `low`, as numbers; an address of IPv4 is that of ::ffff:a.b.c.d. All in the byte order of this machine. */
struct key {
    u64 low[2]; /* the more significant half first */
    u64 high[2];
    u16 low_port;
    u16 high_port;
    u16 vlan;
    u8 protocol;
    u8 version;
};

/* Why a frame went up to user space, and the other ends that it may have had. */
enum term {
    SEEN,
    COUNTED,
    METADATA,
    NEW_FLOW,
    TABLE_FULL,
    WATCHED,
    CLOSED,
    IN_USE, /* by other CPUs, for too long */
    TRIMMED,
    METADATA_FULL,
    NOT_IP,
    TRUNCATED,
    MALFORMED,
    OPTIONS,
    EXTENSIONS,
    FRAGMENT,
    TUNNEL,
    PROTOCOL,
    TERMS,
};

struct tally {
    u64 frames;
    u64 octets;
};

/* One for each CPU. */
struct counters {
    struct tally of[TERMS];
    /* Exports that were asked for and found no room; they are asked for again with the flow's next packet. */
    u64 exports_deferred;
    /* What user space took out of entries, and what was in those that it took out. */
    struct tally removed;
};

enum state {
    GONE = 0,   /* Of no flow: just made, or taken out. Nothing but `control` may change it. */
    DATA = 1,   /* Frames go up, and the flow is watched for its end. */
    TRIM = 2,   /* Frames go up without what is behind `trim_bytes`. */
    NODATA = 3, /* What is said of a frame goes up, and the frame is dropped. */
    STAT = 4,   /* Frames are counted here and dropped. */
};

enum reason { OPEN = 0, TCP_EOF = 1, ACTIVE = 2, IDLE = 3, LIMIT = 4, CONTENDED = 5 };

struct entry {
    struct key key;
    u64 frames[2]; /* 0 from low to high */
    u64 octets[2];
    u64 first_ns; /* of those that were counted here */
    u64 last_ns;
    u64 heard_ns; /* of all */
    u64 active_due_ns;
    u64 export_at; /* frames; none while it was told and was not collected yet */
    u8 tcp_flags[2];
    u8 state;
    u8 reason; /* it is closed if there is one */
    u8 published;
    u8 unused[3];
    struct bpf_spin_lock lock;
    u32 contended; /* a frame went by that did not get the lock: it is closed */
};

struct settings {
    u64 held; /* flows in the map */
    u64 capacity;
    u64 idle_ns;
    u64 limit; /* frames from when the entry was made or collected to an export; 0 without */
    u64 clock_offset_ns;
    u64 clock_held_ns; /* the time, if it is not 0 */
    u32 trim_bytes; /* 0: the end of the header of TCP or UDP */
    u8 vlan_in_key;
    u8 tunnels; /* those in UDP go up */
    u8 unused[2];
    u32 snap_bytes; /* of a frame at most so many go to a packet socket */
    u32 unused_too;
};

/* Asks user space to take a flow, or tells it what it has. */
struct export {
    struct key key;
    u64 frames[2];
    u64 octets[2];
    u64 first_ns;
    u64 last_ns;
    u64 now_ns;
    u8 tcp_flags[2];
    u8 state;
    u8 reason;
    u32 unused;
};

/* What is said of a frame. */
struct metadata {
    struct key key;
    u64 time_ns;
    u32 octets;
    u8 tcp_flags;
    u8 turned; /* from high to low */
    u8 unused[2];
};

enum operation { INSERT = 1, SET = 2, REMOVE = 3, READ = 4, CLOCK = 5, COLLECT = 6 };
enum outcome { DONE = 1, EXISTS = 2, FULL = 3, ABSENT = 4, IS_CLOSED = 5, BUSY = 6 };

/* What `control` is handed in place of a frame, and gives back. */
struct command {
    u32 operation;
    u32 outcome;
    u64 now_ns;
    u64 heard_ns;
    u64 active_due_ns;
    u32 state;
    u32 slot; /* of the entry, where the map of flows has its number alone */
    struct key key;
    struct entry entry;
};

_Static_assert(sizeof(struct key) == 40, "as in abi.rs");
_Static_assert(sizeof(struct counters) == 312, "as in abi.rs");
_Static_assert(sizeof(struct entry) == 128 && __builtin_offsetof(struct entry, lock) == 120, "as in abi.rs");
_Static_assert(__builtin_offsetof(struct entry, tcp_flags) == 112, "as in abi.rs");
_Static_assert(sizeof(struct settings) == 64, "as in abi.rs");
_Static_assert(sizeof(struct export) == 104, "as in abi.rs");
_Static_assert(sizeof(struct metadata) == 56, "as in abi.rs");
_Static_assert(sizeof(struct command) == 208 && __builtin_offsetof(struct command, entry) == 80, "as in abi.rs");
