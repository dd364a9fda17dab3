/* What a program sees of a frame, and what it reads there. */
#pragma once

#include "connections.bpf.h"

enum {
    ETHERNET_BYTES = 14,
    TAG_BYTES = 4,
    TAGS_MAX = 4,
    IPV4_BYTES = 20,
    IPV6_BYTES = 40,
    TCP_BYTES = 20,
    UDP_BYTES = 8,
    PROTOCOL_TCP = 6,
    PROTOCOL_UDP = 17,
    VXLAN_PORT = 4789,
    GTPU_PORT = 2152,
    FIN = 1,
    SYN = 2,
    RST = 4,
};

struct packet {
    struct key key;
    u32 octets;
    u32 headers; /* to the end of the header of TCP or UDP, from the begin of the frame */
    u8 tcp_flags;
    u8 turned;
};

/* What a program sees of a frame. */
struct look {
    const u8 *at; /* its first bytes, up to `end` */
    const u8 *end;
    u32 frame_bytes;    /* all that it has */
    u32 has_hidden_tag; /* 1: the kernel took the outermost VLAN tag out of it */
    u32 hidden_tag;
};

/* How many bytes of a frame are kept that is cut: up to the end of its headers, or those that are set. A tag that is not in the frame comes back later, and is one of them. */
INLINE u32 kept_bytes(const struct look *look, const struct settings *set, const struct packet *packet) {
    u32 hidden = look->has_hidden_tag ? TAG_BYTES : 0;
    u32 wanted = set->trim_bytes > hidden ? set->trim_bytes - hidden : 0;
    return wanted > packet->headers ? wanted : packet->headers;
}
