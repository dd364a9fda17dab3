/*
 * The table of connections below user space: frames of flows that are known are counted here and dropped, all others go up.
 *
 * It is compiled twice: for an interface (XDP, xdp.bpf.h), where a frame that is counted is dropped for all, and, with FILTER, for packet sockets (filter.bpf.h), where it
 * is kept from the socket alone. Both headers have the same names for what differs: how a frame is looked at, found in the table, and locked there.
 *
 * What holds at all times:
 * - An entry changes under its lock alone. An element of the map may be given to another flow while a program still has a pointer to it, so that its key is compared
 *   under the lock. It is put into the map and taken out only while its state is GONE: a frame that has found it before sees that, and lets the frame go up.
 * - A frame that may be the first of another record (SYN, FIN, RST, a time-out) closes the entry, and goes up. What was counted stays in the entry until user space takes it:
 *   an export that is lost loses nothing.
 * - A flow that has reached the limit is told of once: it is told of again when it was collected and has reached the limit anew. An export without room is tried again.
 * - A frame is in COUNTED before it can be taken out of its entry: what was counted is never less than what was removed.
 * - What is not certain goes up. That is always right.
 */
#include "connections.bpf.h"

#ifdef FILTER
#include "filter.bpf.h"
#else
#include "xdp.bpf.h"
#endif

struct map counters SECTION("maps");
struct map settings SECTION("maps");
struct map exports SECTION("maps");
struct map metadata SECTION("maps");

INLINE u16 be16(const u8 *at) { return (u16)at[0] << 8 | at[1]; }

INLINE u64 be32(const u8 *at) { return (u64)be16(at) << 16 | be16(at + 2); }

INLINE u64 be64(const u8 *at) { return be32(at) << 32 | be32(at + 4); }

INLINE int is_vlan(u16 type) { return type == 0x8100 || type == 0x88a8 || type == 0x9100; }

/* Puts both ends in the key in their order. */
INLINE void order(struct packet *packet, const u64 *source, const u64 *destination, u16 source_port, u16 destination_port) {
    int turned = source[0] != destination[0] ? source[0] > destination[0]
                 : source[1] != destination[1] ? source[1] > destination[1]
                                               : source_port > destination_port;
    struct key *key = &packet->key;
    packet->turned = turned;
    key->low[0] = turned ? destination[0] : source[0];
    key->low[1] = turned ? destination[1] : source[1];
    key->high[0] = turned ? source[0] : destination[0];
    key->high[1] = turned ? source[1] : destination[1];
    key->low_port = turned ? destination_port : source_port;
    key->high_port = turned ? source_port : destination_port;
}

/* Reads the header of TCP or UDP. `rest` is what the IP packet says to have for it. */
INLINE u32 transport(const u8 *at, const u8 *end, const struct settings *set, struct packet *packet, u32 rest, u64 *source, u64 *destination) {
    u32 header = UDP_BYTES;
    if (packet->key.protocol == PROTOCOL_TCP)
        header = TCP_BYTES;
    else if (packet->key.protocol != PROTOCOL_UDP)
        return PROTOCOL;
    if (rest < header)
        return MALFORMED;
    if (at + UDP_BYTES > end)
        return TRUNCATED;
    u16 from = be16(at), to = be16(at + 2);
    if (packet->key.protocol == PROTOCOL_TCP) {
        if (at + TCP_BYTES > end)
            return TRUNCATED;
        packet->tcp_flags = at[13];
        header = (at[12] >> 4) * 4;
        if (header < TCP_BYTES || header > rest)
            return MALFORMED;
    } else if (set->tunnels && (from == VXLAN_PORT || to == VXLAN_PORT || from == GTPU_PORT || to == GTPU_PORT)) {
        return TUNNEL;
    }
    packet->headers += header;
    order(packet, source, destination, from, to);
    return 0;
}

INLINE u32 ipv4(const u8 *at, const u8 *end, const struct settings *set, struct packet *packet) {
    if (at + IPV4_BYTES > end)
        return TRUNCATED;
    if (at[0] >> 4 != 4 || (at[0] & 15) < 5)
        return MALFORMED;
    if ((at[0] & 15) > 5)
        return OPTIONS;
    if (be16(at + 6) & 0x3fff)
        return FRAGMENT;
    u32 octets = be16(at + 2);
    if (octets < IPV4_BYTES)
        return MALFORMED;
    if (octets > packet->octets)
        return TRUNCATED;
    packet->octets = octets;
    packet->headers += IPV4_BYTES;
    packet->key.version = 4;
    packet->key.protocol = at[9];
    u64 source[2] = {0, 0xffff00000000ull | be32(at + 12)}, destination[2] = {0, 0xffff00000000ull | be32(at + 16)};
    return transport(at + IPV4_BYTES, end, set, packet, octets - IPV4_BYTES, source, destination);
}

INLINE u32 ipv6(const u8 *at, const u8 *end, const struct settings *set, struct packet *packet) {
    if (at + IPV6_BYTES > end)
        return TRUNCATED;
    if (at[0] >> 4 != 6)
        return MALFORMED;
    u8 next = at[6];
    if (next == 44)
        return FRAGMENT;
    if (next == 0 || next == 43 || next == 60)
        return EXTENSIONS;
    u32 said = be16(at + 4);
    if (said == 0)
        return MALFORMED;
    if (said + IPV6_BYTES > packet->octets)
        return TRUNCATED;
    packet->octets = said + IPV6_BYTES;
    packet->headers += IPV6_BYTES;
    packet->key.version = 6;
    packet->key.protocol = next;
    u64 source[2] = {be64(at + 8), be64(at + 16)}, destination[2] = {be64(at + 24), be64(at + 32)};
    return transport(at + IPV6_BYTES, end, set, packet, said, source, destination);
}

/* Reads a frame. Not 0: why it goes up; its octets are then those behind its link header. */
INLINE u32 parse(const struct look *look, const struct settings *set, struct packet *packet) {
    const u8 *at = look->at, *end = look->end;
    u32 frame = look->frame_bytes, link = ETHERNET_BYTES;
    packet->octets = frame > link ? frame - link : 0;
    if (at + ETHERNET_BYTES > end)
        return TRUNCATED;
    u16 type = be16(at + 12);
    at += ETHERNET_BYTES;
    if (look->has_hidden_tag && set->vlan_in_key)
        packet->key.vlan = look->hidden_tag & 0x0fff;
#pragma unroll
    for (int tag = 0; tag < TAGS_MAX; tag++) {
        if (!is_vlan(type) || tag + look->has_hidden_tag >= TAGS_MAX)
            break;
        if (at + TAG_BYTES > end)
            return TRUNCATED;
        if (tag == 0 && !look->has_hidden_tag && set->vlan_in_key)
            packet->key.vlan = be16(at) & 0x0fff;
        type = be16(at + 2);
        at += TAG_BYTES;
        link += TAG_BYTES;
    }
    packet->octets = frame > link ? frame - link : 0;
    packet->headers = link;
    if (type == 0x0800)
        return ipv4(at, end, set, packet);
    if (type == 0x86dd)
        return ipv6(at, end, set, packet);
    return NOT_IP;
}

INLINE u64 time_ns(const struct settings *set) {
    return set->clock_held_ns ? set->clock_held_ns : bpf_ktime_get_ns() + set->clock_offset_ns;
}

/* Frames and octets of a term: of this CPU alone, and nothing interrupts the program. */
INLINE void add(struct counters *counted, u32 term, u32 octets) {
    if (term >= TERMS)
        return;
    counted->of[term].frames++;
    counted->of[term].octets += octets;
}

INLINE int same(const struct key *one, const struct key *other) {
    const u64 *a = (const u64 *)one, *b = (const u64 *)other;
    return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3] && a[4] == b[4];
}

INLINE int is_open(const struct entry *entry) { return entry->state != GONE && entry->reason == OPEN; }

/* Why a frame is none of the entry's record; OPEN if it is. A frame that another CPU overtook is not late. */
INLINE u8 closing(const struct entry *entry, const struct settings *set, u64 now, u8 tcp_flags) {
    if (is_contended(entry))
        return CONTENDED;
    if ((s64)(now - entry->heard_ns) >= (s64)set->idle_ns)
        return IDLE;
    if (now >= entry->active_due_ns)
        return ACTIVE;
    return tcp_flags & (SYN | FIN | RST) ? TCP_EOF : OPEN;
}

/* Why user space is to be told of the entry, if it is. */
INLINE u8 publishable(const struct entry *entry) {
    if (entry->state == GONE || entry->published)
        return OPEN;
    if (entry->reason != OPEN)
        return entry->reason;
    return entry->frames[0] + entry->frames[1] >= entry->export_at ? LIMIT : OPEN;
}

INLINE void count(struct entry *entry, const struct packet *packet, u64 now) {
    u32 way = packet->turned & 1;
    entry->frames[way]++;
    entry->octets[way] += packet->octets;
    entry->tcp_flags[way] |= packet->tcp_flags;
    if (entry->first_ns == 0 || now < entry->first_ns)
        entry->first_ns = now;
    if (now > entry->last_ns)
        entry->last_ns = now;
}

/* What becomes of a frame of an entry that is open. */
INLINE u32 by_state(struct entry *entry, const struct packet *packet, u64 now, int has_room) {
    if (now > entry->heard_ns)
        entry->heard_ns = now;
    switch (entry->state) {
    case STAT:
        count(entry, packet, now);
        return COUNTED;
    case NODATA:
        return has_room ? METADATA : METADATA_FULL;
    case TRIM:
        return TRIMMED;
    default:
        return WATCHED;
    }
}

INLINE void copy_key(struct key *to, const struct key *from) {
    u64 *a = (u64 *)to;
    const u64 *b = (const u64 *)from;
    a[0] = b[0], a[1] = b[1], a[2] = b[2], a[3] = b[3], a[4] = b[4];
}

INLINE void fill_export(struct export *export, const struct entry *entry, u64 now, u8 reason) {
    copy_key(&export->key, &entry->key);
    export->frames[0] = entry->frames[0];
    export->frames[1] = entry->frames[1];
    export->octets[0] = entry->octets[0];
    export->octets[1] = entry->octets[1];
    export->first_ns = entry->first_ns;
    export->last_ns = entry->last_ns;
    export->now_ns = now;
    export->tcp_flags[0] = entry->tcp_flags[0];
    export->tcp_flags[1] = entry->tcp_flags[1];
    export->state = entry->state;
    export->reason = reason;
    export->unused = 0;
}

INLINE void fill_metadata(struct metadata *said, const struct packet *packet, u64 now) {
    copy_key(&said->key, &packet->key);
    said->time_ns = now;
    said->octets = packet->octets;
    said->tcp_flags = packet->tcp_flags;
    said->turned = packet->turned;
    said->unused[0] = said->unused[1] = 0;
}

/* Which term a frame of a flow is of; COUNTED is added here. Room for what may have to be told is taken before the lock, which no call may be made under. */
INLINE u32 of_flow(const struct settings *set, struct counters *counted, const struct packet *packet) {
    u32 slot = 0;
    struct entry *entry = find(&packet->key, &slot);
    if (!entry)
        return set->held >= set->capacity ? TABLE_FULL : NEW_FLOW;
    u64 now = time_ns(set);
    struct metadata *said = NULL;
    struct export *export = NULL;
    if (entry->state == NODATA)
        said = bpf_ringbuf_reserve(&metadata, sizeof *said, 0);
    int asks = publishable(entry) || entry->frames[0] + entry->frames[1] + 1 >= entry->export_at || closing(entry, set, now, packet->tcp_flags);
    if (asks && !entry->published)
        export = bpf_ringbuf_reserve(&exports, sizeof *export, 0);

    u32 term = CLOSED;
    u8 publish = OPEN;
    int deferred = 0;
    if (lock(entry)) {
        term = NEW_FLOW;
        if (entry->state != GONE && same(&entry->key, &packet->key)) {
            if (entry->reason == OPEN)
                entry->reason = closing(entry, set, now, packet->tcp_flags);
            term = entry->reason == OPEN ? by_state(entry, packet, now, said != NULL) : CLOSED;
            if (term == COUNTED)
                add(counted, COUNTED, packet->octets);
            publish = publishable(entry);
            if (publish && !export) {
                deferred = 1;
                publish = OPEN;
            }
            if (publish) {
                fill_export(export, entry, now, publish);
                if (publish == LIMIT)
                    entry->export_at = ~0ull;
                else
                    entry->published = 1;
            }
        }
        unlock(entry);
    } else {
        term = IN_USE;
        contend(entry);
    }

    if (export) {
        if (publish)
            bpf_ringbuf_submit(export, 0);
        else
            bpf_ringbuf_discard(export, 0);
    }
    if (said) {
        if (term == METADATA) {
            fill_metadata(said, packet, now);
            bpf_ringbuf_submit(said, 0);
        } else {
            bpf_ringbuf_discard(said, 0);
        }
    }
    counted->exports_deferred += deferred;
    return term;
}

/* What becomes of a frame. */
INLINE u32 judge(const struct look *look, struct counters *counted, const struct settings *set, struct packet *packet) {
    u32 term = parse(look, set, packet);
    add(counted, SEEN, packet->octets);
    if (term == 0)
        term = of_flow(set, counted, packet);
    if (term != COUNTED)
        add(counted, term, packet->octets);
    return term;
}

#ifdef FILTER
/* Its value is how many bytes of the frame go to the socket. */
SECTION("socket/connections") int connections(struct __sk_buff *context) {
    u32 first = 0;
    struct counters *counted = bpf_map_lookup_elem(&counters, &first);
    struct settings *set = bpf_map_lookup_elem(&settings, &first);
    if (!counted || !set)
        return ALL_BYTES;
    struct packet packet = {};
    struct look look = {};
    u8 bytes[LOOK_BYTES] = {};
    look_at(context, bytes, &look);
    u32 term = judge(&look, counted, set, &packet);
    if (term == COUNTED || term == METADATA)
        return 0;
    u32 most = term == TRIMMED ? kept_bytes(&look, set, &packet) : ALL_BYTES;
    return most < set->snap_bytes ? most : set->snap_bytes;
}
#else
SECTION("xdp/connections") int connections(struct xdp_md *context) {
    u32 first = 0;
    struct counters *counted = bpf_map_lookup_elem(&counters, &first);
    struct settings *set = bpf_map_lookup_elem(&settings, &first);
    if (!counted || !set)
        return XDP_PASS;
    struct packet packet = {};
    struct look look = {};
    look_at(context, &look);
    u32 term = judge(&look, counted, set, &packet);
    if (term == COUNTED || term == METADATA)
        return XDP_DROP;
    if (term == TRIMMED)
        trim(context, &look, kept_bytes(&look, set, &packet));
    return XDP_PASS;
}
#endif

INLINE u64 export_at(const struct settings *set) { return set->limit ? set->limit : ~0ull; }

/* Puts an entry into the map that is of no flow yet. */
INLINE u32 make(struct settings *set, const struct key *key, u32 slot) {
    long error = put(key, slot);
    if (error)
        return error == -17 ? EXISTS : FULL;
    __sync_fetch_and_add(&set->held, 1);
    return DONE;
}

/* Takes an entry out of the map that is of no flow any more. */
INLINE void unmake(struct settings *set, const struct key *key) {
    bpf_map_delete_elem(&flows, key);
    __sync_fetch_and_add(&set->held, -1);
}

INLINE void read(struct entry *to, const struct entry *from) {
    copy_key(&to->key, &from->key);
    to->frames[0] = from->frames[0];
    to->frames[1] = from->frames[1];
    to->octets[0] = from->octets[0];
    to->octets[1] = from->octets[1];
    to->first_ns = from->first_ns;
    to->last_ns = from->last_ns;
    to->heard_ns = from->heard_ns;
    to->active_due_ns = from->active_due_ns;
    to->export_at = from->export_at;
    to->tcp_flags[0] = from->tcp_flags[0];
    to->tcp_flags[1] = from->tcp_flags[1];
    to->state = from->state;
    to->reason = from->reason;
    to->published = from->published;
}

/* It has counted nothing. */
INLINE void begin(struct entry *entry, const struct settings *set) {
    entry->frames[0] = entry->frames[1] = 0;
    entry->octets[0] = entry->octets[1] = 0;
    entry->first_ns = entry->last_ns = 0;
    entry->export_at = export_at(set);
    entry->tcp_flags[0] = entry->tcp_flags[1] = 0;
}

INLINE void open(struct entry *entry, const struct settings *set, const struct command *command, const struct key *key) {
    copy_key(&entry->key, key);
    begin(entry, set);
    entry->heard_ns = command->heard_ns;
    entry->active_due_ns = command->active_due_ns;
    entry->reason = OPEN;
    entry->published = 0;
    entry->contended = 0;
    entry->state = command->state;
}

/* The state of an entry that is open; what was heard meanwhile stays. */
INLINE u32 change(struct entry *entry, const struct command *command) {
    if (!is_open(entry))
        return IS_CLOSED;
    entry->state = command->state;
    if (command->heard_ns > entry->heard_ns)
        entry->heard_ns = command->heard_ns;
    if (command->active_due_ns < entry->active_due_ns)
        entry->active_due_ns = command->active_due_ns;
    return DONE;
}

/* User space's hand in the map: it runs on a command in place of a frame, and never on an interface. */
SECTION("xdp/control") int control(struct xdp_md *context) {
    struct command *command = (struct command *)(long)context->data;
    if ((void *)(command + 1) > (void *)(long)context->data_end)
        return XDP_DROP;
    u32 first = 0;
    struct counters *counted = bpf_map_lookup_elem(&counters, &first);
    struct settings *set = bpf_map_lookup_elem(&settings, &first);
    if (!counted || !set)
        return XDP_DROP;
    if (command->operation == CLOCK) {
        set->clock_offset_ns = command->heard_ns;
        command->outcome = DONE;
        return XDP_PASS;
    }
    struct key key;
    copy_key(&key, &command->key);
    u32 operation = command->operation, outcome = DONE;
    command->now_ns = time_ns(set);
    if (operation == INSERT)
        outcome = make(set, &key, command->slot);
    u32 slot = 0;
    struct entry *entry = outcome == DONE ? find(&key, &slot) : NULL;
    if (!entry) {
        command->outcome = outcome == DONE ? ABSENT : outcome;
        return XDP_PASS;
    }
    command->slot = slot;
    if (!lock(entry)) {
        if (operation == INSERT)
            unmake(set, &key);
        command->outcome = BUSY;
        return XDP_PASS;
    }
    if (is_open(entry) && is_contended(entry))
        entry->reason = CONTENDED;
    if (operation == INSERT) {
        open(entry, set, command, &key);
    } else if (operation == SET) {
        outcome = change(entry, command);
    } else {
        read(&command->entry, entry);
        if (operation == REMOVE)
            entry->state = GONE;
        if (operation == COLLECT)
            begin(entry, set);
    }
    unlock(entry);
    if (operation == REMOVE || operation == COLLECT) {
        counted->removed.frames += command->entry.frames[0] + command->entry.frames[1];
        counted->removed.octets += command->entry.octets[0] + command->entry.octets[1];
    }
    if (operation == REMOVE)
        unmake(set, &key);
    command->outcome = outcome;
    return XDP_PASS;
}
