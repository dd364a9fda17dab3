/*
 * The client of Forebay's multiplexer: frames of a network card that a daemon owns, through shared
 * memory, without privileges. docs/MULTIPLEXER.md is about the daemon and its file.
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
#define FOREBAY_CLIENT_ABI 1u

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

/** All buffers are on their way: wait until some are back. */
#define FOREBAY_CLIENT_FULL (-7)

/** A frame of a length that the link does not take. */
#define FOREBAY_CLIENT_LENGTH (-8)

/** A number of no frame that this program has: out of range, never given, or given back before. */
#define FOREBAY_CLIENT_NO_FRAME (-9)

/** Another thread is in a call with this client. */
#define FOREBAY_CLIENT_BUSY (-10)

/** A defect of the library, whose text is for its makers. The client can only be disconnected. */
#define FOREBAY_CLIENT_DEFECT (-11)

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
    forebay_client_wait(). After FOREBAY_CLIENT_LENGTH the buffer is still the program's, and
    after no other code. */
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

#ifdef __cplusplus
}
#endif

#endif
