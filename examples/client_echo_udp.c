/* A client of the multiplexer in C with an IP stack: each datagram goes back to its sender.
 *
 *     cargo build --release -p forebay-client-c
 *     cc -Icrates/faces/forebay-client-c/include examples/client_echo_udp.c -Ltarget/release -lforebay_client -o client_echo_udp
 *     LD_LIBRARY_PATH=target/release ./client_echo_udp /run/forebay-mux.socket NAME [PORT [DATAGRAMS]]
 *
 * It ends after so many datagrams, or with the multiplexer, and prints what it has counted. */
#include "forebay_client.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const uint64_t SECOND_NS = 1000000000;

static int failed(const char *what, int32_t code)
{
    fprintf(stderr, "%s: %s (%s)\n", what, forebay_client_error_text(), forebay_client_code_name(code));
    return 1;
}

/* Waits while as many datagrams wait to be sent as the socket keeps. */
static int32_t answer(forebay_client *client, uint32_t udp, const forebay_client_endpoint *to, const uint8_t *data, size_t bytes)
{
    int32_t code;
    while ((code = forebay_client_udp_send(client, udp, to, data, bytes)) == FOREBAY_CLIENT_FULL)
        if ((code = forebay_client_ip_wait(client, SECOND_NS)) < 0)
            return code;
    return code;
}

int main(int argc, char **argv)
{
    static uint8_t data[65536];
    forebay_client *client;
    forebay_client_endpoint from;
    forebay_client_ip_counts counts;
    forebay_client_counts frames;
    uint64_t echoed = 0, most;
    uint32_t udp;
    size_t bytes;
    int32_t code;

    if (argc < 3) {
        fprintf(stderr, "usage: %s SOCKET NAME [PORT [DATAGRAMS]]\n", argv[0]);
        return 2;
    }
    most = argc > 4 ? strtoull(argv[4], NULL, 10) : UINT64_MAX;
    if ((code = forebay_client_connect(argv[1], argv[2], 5000, &client)) < 0)
        return failed("connecting", code);
    if ((code = forebay_client_ip_open(client, NULL)) < 0)
        return failed("the stack", code);
    if ((code = forebay_client_udp_open(client, (uint16_t)(argc > 3 ? atoi(argv[3]) : 9500), &udp)) < 0)
        return failed("the socket", code);
    printf("%s has port %" PRId32 "\n", argv[2], forebay_client_udp_port(client, udp));
    fflush(stdout);
    while (echoed < most && code >= 0) {
        code = forebay_client_udp_receive(client, udp, data, sizeof data, &bytes, &from, SECOND_NS);
        if (code != FOREBAY_CLIENT_READY)
            continue;
        if ((code = answer(client, udp, &from, data, bytes)) >= 0)
            echoed++;
        else if (code == FOREBAY_CLIENT_NO_WAY || code == FOREBAY_CLIENT_ARGUMENT)
            code = 0; /* It came from port 0, or there is no way back. */
    }
    /* What still waits for its receiver's address goes, or is given up. */
    while (code >= 0 && (code = forebay_client_ip_get_counts(client, &counts)) >= 0 && counts.unsent.items > 0)
        code = forebay_client_ip_wait(client, SECOND_NS / 100);
    forebay_client_ip_close(client);
    if (forebay_client_ip_get_counts(client, &counts) >= 0 && forebay_client_get_counts(client, &frames) >= 0) {
        printf("datagrams: received %" PRIu64 " (%" PRIu64 " bytes), sent %" PRIu64 " (%" PRIu64 " bytes)\n", counts.received.items,
               counts.received.bytes, counts.sent.items, counts.sent.bytes);
        printf("lost: %" PRIu64 " queue_full, %" PRIu64 " unresolved, %" PRIu64 " unclaimed\n", counts.queue_full.items,
               counts.unresolved.items, counts.unclaimed);
        printf("frames: received %" PRIu64 ", sent %" PRIu64 ", with datagrams %" PRIu64 "\n", frames.received, frames.sent,
               counts.frames_sent.items);
    }
    if (code < 0 && code != FOREBAY_CLIENT_GONE)
        failed("echo", code);
    forebay_client_disconnect(&client);
    return code < 0 && code != FOREBAY_CLIENT_GONE;
}
