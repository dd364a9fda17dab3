/* A client of the multiplexer in C: each frame goes back to its sender.
 *
 *     cargo build --release -p forebay-client-c
 *     cc -Icrates/faces/forebay-client-c/include examples/client_echo.c -Ltarget/release -lforebay_client -o client_echo
 *     LD_LIBRARY_PATH=target/release ./client_echo /run/forebay-mux.socket NAME [FRAMES]
 *
 * It ends after so many frames, or with the multiplexer, and prints what it has counted. */
#include "forebay_client.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t SECOND_NS = 1000000000;

static int failed(const char *what, int32_t code)
{
    fprintf(stderr, "%s: %s (%s)\n", what, forebay_client_error_text(), forebay_client_code_name(code));
    return 1;
}

/* The frame, with the addresses changed over, in a buffer of its own. Waits while all are on their way. */
static int32_t echo(forebay_client *client, const forebay_client_frame *frame)
{
    forebay_client_buffer buffer;
    int32_t code;
    while ((code = forebay_client_reserve(client, &buffer)) == FOREBAY_CLIENT_FULL)
        if ((code = forebay_client_wait(client, SECOND_NS)) < 0)
            return code;
    if (code < 0)
        return code;
    if (frame->bytes < 14 || frame->bytes > buffer.bytes_max)
        return forebay_client_put_back(client, buffer.number);
    memcpy(buffer.data, frame->data + 6, 6);
    memcpy(buffer.data + 6, frame->data, 6);
    memcpy(buffer.data + 12, frame->data + 12, frame->bytes - 12);
    return forebay_client_send(client, buffer.number, frame->bytes);
}

int main(int argc, char **argv)
{
    forebay_client *client;
    forebay_client_properties place;
    forebay_client_frame frame;
    forebay_client_counts counts;
    uint64_t echoed = 0, most;
    int32_t code;

    if (argc < 3) {
        fprintf(stderr, "usage: %s SOCKET NAME [FRAMES]\n", argv[0]);
        return 2;
    }
    most = argc > 3 ? strtoull(argv[3], NULL, 10) : UINT64_MAX;
    if ((code = forebay_client_connect(argv[1], argv[2], 5000, &client)) < 0)
        return failed("connecting", code);
    if ((code = forebay_client_get_properties(client, &place)) < 0)
        return failed("properties", code);
    printf("%s is %02x:%02x:%02x:%02x:%02x:%02x, MTU %" PRIu32 ", %u address(es)\n", argv[2], place.mac[0], place.mac[1],
           place.mac[2], place.mac[3], place.mac[4], place.mac[5], place.mtu_bytes, place.address_count);
    fflush(stdout);
    while (echoed < most && code >= 0) {
        while (echoed < most && (code = forebay_client_receive(client, &frame)) == FOREBAY_CLIENT_FRAME) {
            if ((code = echo(client, &frame)) < 0 || (code = forebay_client_release(client, frame.number)) < 0)
                break;
            echoed++;
        }
        if (code >= 0)
            code = forebay_client_wait(client, echoed < most ? SECOND_NS : 0);
    }
    if (forebay_client_get_counts(client, &counts) >= 0)
        printf("received %" PRIu64 " (%" PRIu64 " bytes), sent %" PRIu64 " (%" PRIu64 " bytes), full %" PRIu64 "\n", counts.received,
               counts.received_bytes, counts.sent, counts.sent_bytes, counts.refused_full);
    if (code < 0 && code != FOREBAY_CLIENT_GONE)
        failed("echo", code);
    forebay_client_disconnect(&client);
    return code < 0 && code != FOREBAY_CLIENT_GONE;
}
