/*
 * The client of Forebay's multiplexer: frames of a network card that a daemon owns, through shared
 * memory, without privileges; and sockets over an IP stack, if the program wants one. docs/MULTIPLEXER.md is about the daemon and its file.
 *
 * Made from the sources in Rust, and not by hand: see tests/header.rs of the crate forebay-client-c.
 *
 *     cargo build --release -p forebay-client-c
 *     cc -Icrates/faces/forebay-client-c/include program.c -Ltarget/release -lforebay_client
 *
 * Codes. A function gives a code, or a descriptor: below 0 it has failed, and has done nothing.
 * forebay_client_error_text() says why, for people.
 *
 * Threads. One thread at a time is in a call with a client; another one is given
 * FOREBAY_CLIENT_BUSY, and nothing is done. A client may go from one thread to another. Two clients
 * have nothing in common. Texts of errors are of the thread whose call failed.
 *
 * Pointers. NULL is FOREBAY_CLIENT_ARGUMENT wherever a pointer is asked for. Others are the
 * caller's word: memory that it has, or a client that forebay_client_connect() gave and
 * forebay_client_disconnect() did not take. No copy of that pointer is used behind the disconnect.
 *
 * IP. After forebay_client_ip_open() the client's frames are those of an IP stack, and the program
 * has sockets of UDP and connections of TCP, which are named by numbers. The stack works while a call
 * with its client does, and sends no fragments. forebay_client_ip_get_counts() says what became of each
 * datagram, and of the bytes of connections.
 *
 * Frames. What is received is the program's until it is released, what is reserved until it is sent
 * or put back: after that its memory is not read or written any more. Both show to the multiplexer
 * with forebay_client_flush() or forebay_client_wait(), once for many.
 */
#ifndef FOREBAY_CLIENT_H
#define FOREBAY_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A client. Its memory is the library's. */
typedef struct forebay_client forebay_client;

/** Version of this interface: forebay_client_abi() says that of the library that was loaded. */
#define FOREBAY_CLIENT_ABI 3u

/** It is done; where something may be there or not, nothing is. */
#define FOREBAY_CLIENT_OK 0

/** A frame is there. */
#define FOREBAY_CLIENT_FRAME 1

/** Buffers for frames to be sent are back, after FOREBAY_CLIENT_FULL. */
#define FOREBAY_CLIENT_ROOM 2

/** The time has come. */
#define FOREBAY_CLIENT_DUE 3

/** A signal was handled by this thread, or the bell rang for what was taken already: wait again. */
#define FOREBAY_CLIENT_EARLY 4

/** A socket has something for the program: a datagram, bytes, the end of a connection, a new
    one, or room that was waited for. */
#define FOREBAY_CLIENT_READY 5

/** An argument is NULL, or not what it must be. */
#define FOREBAY_CLIENT_ARGUMENT (-1)

/** The system refuses: nobody listens there, say. */
#define FOREBAY_CLIENT_SYSTEM (-2)

/** The multiplexer refuses, with a reason. */
#define FOREBAY_CLIENT_REFUSED (-3)

/** The multiplexer has not answered in time. */
#define FOREBAY_CLIENT_SILENT (-4)

/** The multiplexer has ended the connection, or is dead: disconnect and connect again. */
#define FOREBAY_CLIENT_GONE (-5)

/** What came is not what a multiplexer sends, or its memory not what it should be. */
#define FOREBAY_CLIENT_PROTOCOL (-6)

/** All buffers are on their way, or as many datagrams wait as a socket keeps: wait until some
    are back, or sent. */
#define FOREBAY_CLIENT_FULL (-7)

/** A frame or datagram of a length that the link does not take, or a datagram for which the
    program has too little room. */
#define FOREBAY_CLIENT_LENGTH (-8)

/** A number of no frame that this program has: out of range, never given, or given back before. */
#define FOREBAY_CLIENT_NO_FRAME (-9)

/** Another thread is in a call with this client. */
#define FOREBAY_CLIENT_BUSY (-10)

/** A defect of the library, whose text is for its makers. The client can only be disconnected. */
#define FOREBAY_CLIENT_DEFECT (-11)

/** The client has an IP stack, and its frames are the stack's; or it has none, and the call is
    for one that has. */
#define FOREBAY_CLIENT_STACK (-12)

/** A number of no socket that is open. */
#define FOREBAY_CLIENT_NO_SOCKET (-13)

/** The port has a socket of this client, or it has as many sockets as it may have (64). */
#define FOREBAY_CLIENT_TAKEN (-14)

/** There is no way to that address: it is in no network of the client, and there is no gateway. */
#define FOREBAY_CLIENT_NO_WAY (-15)

/** The place has no IP address in the multiplexer's file. */
#define FOREBAY_CLIENT_NO_ADDRESS (-16)

/** The peer has nothing that listens there. */
#define FOREBAY_CLIENT_PEER_REFUSED (-17)

/** The peer has reset the connection. */
#define FOREBAY_CLIENT_PEER_RESET (-18)

/** The peer has said nothing for too long, 30 s: the connection is given up. */
#define FOREBAY_CLIENT_PEER_SILENT (-19)

/** The program has said that it sends no more on this connection. */
#define FOREBAY_CLIENT_SHUT_DOWN (-20)

/** The connection is not made yet. */
#define FOREBAY_CLIENT_CONNECTING (-21)

/** Most addresses of a client. */
#define FOREBAY_CLIENT_ADDRESSES_MAX 8

/** An IP address of a client, for which the multiplexer answers. */
typedef struct forebay_client_address {
    /** 4 or 6. */
    uint8_t version;
    /** The address, the most significant byte first: 4 bytes and 12 zeroes, or 16 bytes. */
    uint8_t bytes[16];
} forebay_client_address;

/** What the multiplexer gave. */
typedef struct forebay_client_properties {
    /** MTU of the link in bytes, without the header of a frame. */
    uint32_t mtu_bytes;
    /** Most bytes of a frame that can be sent; the least are 14. */
    uint32_t frame_bytes_max;
    /** Buffers in which frames come, of all clients. */
    uint32_t receive_frames;
    /** Bytes of each. */
    uint32_t receive_frame_bytes;
    /** Buffers in which frames go. */
    uint32_t transmit_frames;
    /** Bytes of each. */
    uint32_t transmit_frame_bytes;
    /** The client's VLAN, 1 to 4094; 0: none of its own. */
    uint16_t vlan;
    /** The Ethernet address, which frames that are sent must name as their sender. */
    uint8_t mac[6];
    /** Number of the client. */
    uint8_t number;
    /** How many addresses there are. */
    uint8_t address_count;
    /** The addresses. */
    forebay_client_address addresses[FOREBAY_CLIENT_ADDRESSES_MAX];
} forebay_client_properties;

/** A received frame. */
typedef struct forebay_client_frame {
    /** Its bytes, for reading alone, until forebay_client_release(). The multiplexer could write
        them meanwhile, if it were not honest: copy what is checked. */
    const uint8_t *data;
    /** How many they are. */
    uint32_t bytes;
    /** Its number, for forebay_client_release(). */
    uint32_t number;
} forebay_client_frame;

/** A buffer in which a frame is made. */
typedef struct forebay_client_buffer {
    /** Where the frame goes, until forebay_client_send() or forebay_client_put_back(). What was
        sent before is still there. */
    uint8_t *data;
    /** Most bytes of the frame. */
    uint32_t bytes_max;
    /** Its number, for these two. */
    uint32_t number;
} forebay_client_buffer;

/** What a client has counted: the second party of its account at the multiplexer. */
typedef struct forebay_client_counts {
    /** Frames received. */
    uint64_t received;
    /** Their bytes. */
    uint64_t received_bytes;
    /** Frames handed over to be sent. */
    uint64_t sent;
    /** Their bytes. */
    uint64_t sent_bytes;
    /** Calls that found all buffers on their way (FOREBAY_CLIENT_FULL). */
    uint64_t refused_full;
} forebay_client_counts;

/** The network of a client: the multiplexer says its addresses alone. A prefix of 0 bits is a
    network of all addresses, and no gateway is used then; NULL in place of all is 24 and 64
    bits. */
typedef struct forebay_client_network {
    /** Bits of an address of version 4 that name the network, 0 to 32. */
    uint8_t prefix_v4;
    /** Bits of an address of version 6 that name the network, 0 to 128. */
    uint8_t prefix_v6;
    /** The way to other networks of version 4; version 0: there is none. */
    forebay_client_address gateway_v4;
    /** The way to other networks of version 6; version 0: there is none. */
    forebay_client_address gateway_v6;
} forebay_client_network;

/** An address and a port. */
typedef struct forebay_client_endpoint {
    /** The address. */
    forebay_client_address address;
    /** The port, as a number of this host. */
    uint16_t port;
} forebay_client_endpoint;

/** Datagrams, and bytes of their payload. */
typedef struct forebay_client_datagrams {
    /** Datagrams. */
    uint64_t items;
    /** Bytes of their payload. */
    uint64_t bytes;
} forebay_client_datagrams;

/** Bytes of all connections of TCP of a client, those that were closed among them:
    received_bytes = taken_bytes + unread_bytes + closed_unread_bytes, and asked_bytes =
    acknowledged_bytes + unacknowledged_bytes + closed_unacknowledged_bytes. */
typedef struct forebay_client_tcp_counts {
    /** Those that came, in order and once. */
    uint64_t received_bytes;
    /** Those that the program has taken. */
    uint64_t taken_bytes;
    /** Those that wait for the program now. */
    uint64_t unread_bytes;
    /** Those that waited for the program when it closed the connection, or came after that. */
    uint64_t closed_unread_bytes;
    /** Those that the program handed over. */
    uint64_t asked_bytes;
    /** Those whose receipt the peer has confirmed, by the numbers in its segments. */
    uint64_t acknowledged_bytes;
    /** Those that the stack keeps, as their receipt is not confirmed: they wait, or are on their
        way. */
    uint64_t unacknowledged_bytes;
    /** Those whose receipt it had not confirmed when the connection was closed and at its end. */
    uint64_t closed_unacknowledged_bytes;
    /** Connections that the peer refused. */
    uint64_t refused;
    /** Connections that the peer ended by a reset. */
    uint64_t reset;
    /** Connections whose peer said nothing for too long. */
    uint64_t timed_out;
    /** Connections that the program closed and that were given up before their end: their time
        was over, or too many of them waited for it. */
    uint64_t given_up;
    /** Calls to a listener that were refused, as nothing waited for them there: the program has
        not accepted those before. Of all listeners; 0 for a connection. */
    uint64_t backlog_full;
} forebay_client_tcp_counts;

/** Datagrams of all sockets of a client, those that were closed among them: received = taken +
    queue_full + unread + closed_unread, and asked = sent + unresolved + no_way + unsent +
    closed_unsent. */
typedef struct forebay_client_ip_counts {
    /** Those that came for a socket. */
    forebay_client_datagrams received;
    /** Those that the program has taken. */
    forebay_client_datagrams taken;
    /** Those that were dropped, as many waited for the program as the socket keeps. */
    forebay_client_datagrams queue_full;
    /** Those that wait for the program now. */
    forebay_client_datagrams unread;
    /** Those that waited for the program when it closed their socket. */
    forebay_client_datagrams closed_unread;
    /** Those that the program handed over. */
    forebay_client_datagrams asked;
    /** Those in frames that the multiplexer was handed. */
    forebay_client_datagrams sent;
    /** Those that were given up, as nobody said for 3 s which Ethernet address their receiver
        has. */
    forebay_client_datagrams unresolved;
    /** Those that the stack refused to send. */
    forebay_client_datagrams no_way;
    /** Those that wait to be sent now. */
    forebay_client_datagrams unsent;
    /** Those that waited to be sent when the program closed their socket. */
    forebay_client_datagrams closed_unsent;
    /** Frames that the multiplexer was handed, as the client counted them, less those without a
        datagram: the second party of what was sent. */
    forebay_client_datagrams frames_sent;
    /** Segments of TCP that the multiplexer was handed, and bytes of their payload, those that
        were sent again among them. */
    forebay_client_datagrams segments_sent;
    /** Segments of TCP that came, and bytes of their payload. */
    forebay_client_datagrams segments_received;
    /** What connections of TCP have counted. */
    forebay_client_tcp_counts tcp;
    /** Segments of TCP that came for no connection and no listener: their sender was told by a
        reset. */
    uint64_t segments_unclaimed;
    /** Datagrams that came and that no socket took: none has their port, or the stack refuses
        them, for their check sum, say. */
    uint64_t unclaimed;
    /** Calls that found as many waiting as the socket keeps (FOREBAY_CLIENT_FULL). */
    uint64_t refused_full;
    /** Times that the stack had something to send and all buffers were on their way. */
    uint64_t no_room;
    /** Answers of the stack (to a neighbour's question, say) that were lost, as all buffers were
        on their way. */
    uint64_t answers_lost;
    /** Frames that came with another tag than that of the client's VLAN. */
    uint64_t foreign_tag;
} forebay_client_ip_counts;

/** The version of the library's interface: that of the header is FOREBAY_CLIENT_ABI. */
uint32_t forebay_client_abi(void);

/** The name of a code, as "gone"; "unknown" for others. */
const char *forebay_client_code_name(int32_t code);

/** What went wrong in the last call of this thread that failed, for people; empty if none has.
    It is there until the next call of this thread that fails. */
const char *forebay_client_error_text(void);

/** Asks the multiplexer at this socket for the place of this name, and waits for the answer as
    long as patience_ms. The client is put into *client, which is NULL after an error:
    FOREBAY_CLIENT_SYSTEM, _REFUSED, _SILENT, _GONE, _PROTOCOL or _ARGUMENT. */
int32_t forebay_client_connect(const char *socket, const char *name, uint32_t patience_ms, forebay_client **client);

/** Ends the client, and sets *client to NULL. Its frames and buffers go with it: their memory is
    no longer there. What was sent is shown to the multiplexer first, which sends as much as the
    card takes at once. NULL in *client, as after an earlier call, is FOREBAY_CLIENT_ARGUMENT. */
int32_t forebay_client_disconnect(forebay_client **client);

/** What the multiplexer gave: addresses, MTU, sizes. */
int32_t forebay_client_get_properties(const forebay_client *client, forebay_client_properties *properties);

/** The next frame, if one has come: FOREBAY_CLIENT_FRAME, or FOREBAY_CLIENT_OK without one. It
    is the program's until forebay_client_release(): one that keeps as many as its queue gets no
    more. */
int32_t forebay_client_receive(forebay_client *client, forebay_client_frame *frame);

/** Gives a received frame back, with the next forebay_client_flush() or forebay_client_wait().
    FOREBAY_CLIENT_NO_FRAME: the program has no such frame, as it gave it back before, say. */
int32_t forebay_client_release(forebay_client *client, uint32_t number);

/** A buffer to make a frame in: an Ethernet frame without its check sum. FOREBAY_CLIENT_FULL:
    all are on their way. */
int32_t forebay_client_reserve(forebay_client *client, forebay_client_buffer *buffer);

/** Hands the first bytes of a buffer over as a frame, with the next forebay_client_flush() or
    forebay_client_wait(). After FOREBAY_CLIENT_LENGTH and FOREBAY_CLIENT_STACK (the buffer was
    reserved before there was a stack: put it back) the buffer is still the program's, and after
    no other code. */
int32_t forebay_client_send(forebay_client *client, uint32_t number, uint32_t bytes);

/** Puts a buffer back that is not to be sent. */
int32_t forebay_client_put_back(forebay_client *client, uint32_t number);

/** Copies a frame into a buffer and hands it over, as forebay_client_reserve() and
    forebay_client_send() do. */
int32_t forebay_client_send_copy(forebay_client *client, const uint8_t *frame, size_t bytes);

/** Shows the multiplexer what was sent and given back, and rings once if it sleeps: call it once
    for many frames. */
int32_t forebay_client_flush(forebay_client *client);

/** Flushes, and sleeps until a frame has come (FOREBAY_CLIENT_FRAME), buffers are back after
    FOREBAY_CLIENT_FULL (FOREBAY_CLIENT_ROOM), or so many nanoseconds are over
    (FOREBAY_CLIENT_DUE). FOREBAY_CLIENT_EARLY: wait again. The multiplexer that is gone is
    FOREBAY_CLIENT_GONE, behind all frames that it gave. */
int32_t forebay_client_wait(forebay_client *client, uint64_t timeout_ns);

/** The descriptor for a poll of the program's own, which stays the client's: call
    forebay_client_arm(), sleep only if that says FOREBAY_CLIENT_OK until it is readable, and
    then call forebay_client_wait() with 0. It is not to be read or closed. */
int32_t forebay_client_descriptor(const forebay_client *client);

/** Flushes, and asks to be woken by the descriptor: FOREBAY_CLIENT_OK, or what there is to do
    already, FOREBAY_CLIENT_FRAME or FOREBAY_CLIENT_ROOM. */
int32_t forebay_client_arm(forebay_client *client);

/** What the client has counted so far. */
int32_t forebay_client_get_counts(const forebay_client *client, forebay_client_counts *counts);

/** Gives the client's frames to an IP stack with the addresses that the multiplexer gave: from
    now on the program has sockets, and calls that receive or send frames are
    FOREBAY_CLIENT_STACK. NULL in the place of the network is 24 bits for version 4, 64 for
    version 6, and no gateway. After an error the client is as it was. */
int32_t forebay_client_ip_open(forebay_client *client, const forebay_client_network *network);

/** Opens a socket of UDP at a port of all addresses of the client; port 0: at one that is free.
    It keeps 1,024 datagrams that came and 256 that wait to be sent. *socket is its number. */
int32_t forebay_client_udp_open(forebay_client *client, uint16_t port, uint32_t *socket);

/** The port of a socket of UDP, 1 to 65535. */
int32_t forebay_client_udp_port(forebay_client *client, uint32_t socket);

/** Closes a socket of UDP. What waited in it is counted as closed_unread and closed_unsent. */
int32_t forebay_client_udp_close(forebay_client *client, uint32_t socket);

/** Closes all sockets, and flushes: what waited in them is counted as closed_unread and
    closed_unsent. Connections are reset, also those that were closed and have bytes that their
    peers have not acknowledged. Called before forebay_client_disconnect(), it leaves nothing in
    the counts that has no end. */
int32_t forebay_client_ip_close(forebay_client *client);

/** Sends a copy of a datagram, with the next forebay_client_flush() or call that waits. It waits
    in the socket while its receiver's Ethernet address is asked for, up to 3 s, or while all
    buffers are on their way; FOREBAY_CLIENT_FULL: as many wait there as it keeps. */
int32_t forebay_client_udp_send(forebay_client *client, uint32_t socket, const forebay_client_endpoint *to, const uint8_t *data, size_t bytes);

/** Copies the next datagram of a socket into data, its length into *bytes and its sender into
    *from: FOREBAY_CLIENT_READY. Waits for it up to timeout_ns (FOREBAY_CLIENT_DUE). With
    FOREBAY_CLIENT_LENGTH it has more than bytes_max bytes, which *bytes says, and stays where it
    is. */
int32_t forebay_client_udp_receive(forebay_client *client, uint32_t socket, uint8_t *data, size_t bytes_max, size_t *bytes, forebay_client_endpoint *from, uint64_t timeout_ns);

/** Has the stack work until a socket has something for the program (FOREBAY_CLIENT_READY), or so
    many nanoseconds are over (FOREBAY_CLIENT_DUE). A signal does not end it. */
int32_t forebay_client_ip_wait(forebay_client *client, uint64_t timeout_ns);

/** Has the stack work, and asks to be woken by forebay_client_descriptor(): FOREBAY_CLIENT_READY
    if a socket has something already. With FOREBAY_CLIENT_OK poll the descriptor, for *sleep_ns
    at most, as something of the stack's is due then, and call forebay_client_ip_wait() with 0
    behind that. */
int32_t forebay_client_ip_arm(forebay_client *client, uint64_t *sleep_ns);

/** What became of all datagrams and connections of the client so far. */
int32_t forebay_client_ip_get_counts(const forebay_client *client, forebay_client_ip_counts *counts);

/** Opens a connection to a host, from a port of its own, and waits up to timeout_ns until it is
    made: FOREBAY_CLIENT_READY, or FOREBAY_CLIENT_DUE while it is not. *socket is its number, and
    0 after an error: FOREBAY_CLIENT_PEER_REFUSED, _PEER_RESET, _PEER_SILENT, _NO_WAY or _TAKEN.
    It keeps 256 KiB each way. */
int32_t forebay_client_tcp_connect(forebay_client *client, const forebay_client_endpoint *to, uint64_t timeout_ns, uint32_t *socket);

/** Listens at a port of all addresses of the client; port 0: at one that is free. So many
    connections wait for the program, 1 to 64; one that comes then is refused. *socket is the
    number of the listener. */
int32_t forebay_client_tcp_listen(forebay_client *client, uint16_t port, uint32_t backlog, uint32_t *socket);

/** The next connection of a listener, which is waited for up to timeout_ns: FOREBAY_CLIENT_READY
    with its number in *socket and its far end in *from, or FOREBAY_CLIENT_DUE. */
int32_t forebay_client_tcp_accept(forebay_client *client, uint32_t listener, uint32_t *socket, forebay_client_endpoint *from, uint64_t timeout_ns);

/** The port of a connection or of a listener, 1 to 65535. */
int32_t forebay_client_tcp_port(forebay_client *client, uint32_t socket);

/** Hands over as many of these bytes as there is room for, which *sent says; they go with the
    next forebay_client_flush() or call that waits. While there is no room it is waited for up to
    timeout_ns: FOREBAY_CLIENT_DUE. FOREBAY_CLIENT_READY: some were handed over. A connection at
    its end is FOREBAY_CLIENT_PEER_RESET, _PEER_SILENT, _PEER_REFUSED or _SHUT_DOWN. */
int32_t forebay_client_tcp_send(forebay_client *client, uint32_t socket, const uint8_t *data, size_t bytes, size_t *sent, uint64_t timeout_ns);

/** Copies bytes that came into data, bytes_max of them at most, and says in *bytes how many:
    FOREBAY_CLIENT_READY, with 0 when the peer has said all that it will say. While none are
    there they are waited for up to timeout_ns: FOREBAY_CLIENT_DUE. A connection at its end is
    FOREBAY_CLIENT_PEER_RESET, _PEER_SILENT or _PEER_REFUSED, behind all that came. */
int32_t forebay_client_tcp_receive(forebay_client *client, uint32_t socket, uint8_t *data, size_t bytes_max, size_t *bytes, uint64_t timeout_ns);

/** Says that the program sends no more on a connection: the peer is told behind all that was
    handed over. Receiving goes on. */
int32_t forebay_client_tcp_shut_down(forebay_client *client, uint32_t socket);

/** Closes a connection or a listener. What was handed over still goes to the peer, within calls
    that wait; if something is unread, or comes after this, the peer is told by a reset. */
int32_t forebay_client_tcp_close(forebay_client *client, uint32_t socket);

#ifdef __cplusplus
}
#endif

#endif
