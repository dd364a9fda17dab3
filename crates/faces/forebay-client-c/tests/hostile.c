/* Calls that no program should make, each of which is a code and a text, and harms nobody. */
#include "forebay_client.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t LONG_NS = 30000000000u;
static forebay_client *client;
static forebay_client_frame frame;
static forebay_client_buffer buffer;
static forebay_client_counts counts;
static forebay_client_properties place;
static forebay_client_ip_counts ip_counts;

#define IS(expected, call) is(expected, call, __LINE__, #call)

static void is(int32_t expected, int32_t found, int line, const char *call)
{
    if (expected == found)
        return;
    fprintf(stderr, "line %d: %s is %s, not %s: %s\n", line, call, forebay_client_code_name(found),
            forebay_client_code_name(expected), forebay_client_error_text());
    exit(1);
}

static void said(const char *text)
{
    if (strstr(forebay_client_error_text(), text))
        return;
    fprintf(stderr, "'%s' is not in '%s'\n", text, forebay_client_error_text());
    exit(1);
}

static const uint8_t near_by[] = {10, 0, 0, 2}, far_off[] = {192, 0, 2, 1};
static uint8_t data[2000];
static forebay_client_endpoint peer;
static uint32_t number, other;
static uint64_t sleep_ns;
static size_t bytes;

static void without_a_client(const char *socket, const char *name)
{
    forebay_client *none = NULL;
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_connect(socket, name, 1, NULL));
    said("client is NULL");
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_connect(NULL, name, 1, &none));
    said("socket is NULL");
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_connect(socket, NULL, 1, &none));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_connect(socket, "\xff", 1, &none));
    said("name is not UTF-8");
    IS(FOREBAY_CLIENT_PROTOCOL, forebay_client_connect(socket, "no name", 1, &none));
    IS(FOREBAY_CLIENT_SYSTEM, forebay_client_connect("/no_such_socket", name, 1, &none));
    said("no_such_socket");
    IS(FOREBAY_CLIENT_REFUSED, forebay_client_connect(socket, "stranger", 5000, &none));
    said("not_allowed");
    if (none)
        exit(1);
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_disconnect(&none));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_disconnect(NULL));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_get_properties(NULL, &place));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_receive(NULL, &frame));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_release(NULL, 0));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_reserve(NULL, &buffer));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_send(NULL, 0, 60));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_put_back(NULL, 0));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_send_copy(NULL, (const uint8_t *)"", 0));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_flush(NULL));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_wait(NULL, 0));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_descriptor(NULL));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_arm(NULL));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_get_counts(NULL, &counts));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_ip_open(NULL, NULL));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_udp_open(NULL, 0, &number));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_udp_port(NULL, 1));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_udp_close(NULL, 1));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_udp_send(NULL, 1, &peer, data, 1));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_udp_receive(NULL, 1, data, sizeof data, &bytes, &peer, 0));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_ip_close(NULL));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_ip_wait(NULL, 0));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_ip_arm(NULL, &sleep_ns));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_ip_get_counts(NULL, &ip_counts));
}

/* Calls for a client with a stack, of one that has none. */
static void without_a_stack(void)
{
    IS(FOREBAY_CLIENT_STACK, forebay_client_udp_open(client, 9500, &number));
    said("call forebay_client_ip_open first");
    IS(FOREBAY_CLIENT_STACK, forebay_client_udp_port(client, 1));
    IS(FOREBAY_CLIENT_STACK, forebay_client_udp_close(client, 1));
    peer.address.version = 4;
    IS(FOREBAY_CLIENT_STACK, forebay_client_udp_send(client, 1, &peer, data, 1));
    IS(FOREBAY_CLIENT_STACK, forebay_client_udp_receive(client, 1, data, sizeof data, &bytes, &peer, 0));
    IS(FOREBAY_CLIENT_STACK, forebay_client_ip_close(client));
    IS(FOREBAY_CLIENT_STACK, forebay_client_ip_wait(client, 0));
    IS(FOREBAY_CLIENT_STACK, forebay_client_ip_arm(client, &sleep_ns));
    IS(FOREBAY_CLIENT_STACK, forebay_client_ip_get_counts(client, &ip_counts));
}

static int32_t sent_to(uint8_t version, const uint8_t *four, uint16_t port, size_t size)
{
    memset(&peer, 0, sizeof peer);
    peer.address.version = version;
    memcpy(peer.address.bytes, four, 4);
    peer.port = port;
    return forebay_client_udp_send(client, number, &peer, data, size);
}

static void stack(void)
{
    forebay_client_network network = {33, 64, {0, {0}}, {0, {0}}};
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_ip_open(client, &network));
    said("a prefix of 33 bits");
    network.prefix_v4 = 24;
    network.gateway_v4.version = 6;
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_ip_open(client, &network));
    said("gateway_v4 is of the other version");
    network.gateway_v4.version = 5;
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_ip_open(client, &network));
    /* It is as it was. */
    IS(FOREBAY_CLIENT_OK, forebay_client_reserve(client, &buffer));
    IS(FOREBAY_CLIENT_OK, forebay_client_ip_open(client, NULL));
    IS(FOREBAY_CLIENT_STACK, forebay_client_ip_open(client, NULL));
    IS(FOREBAY_CLIENT_STACK, forebay_client_receive(client, &frame));
    IS(FOREBAY_CLIENT_STACK, forebay_client_reserve(client, &buffer));
    IS(FOREBAY_CLIENT_STACK, forebay_client_send_copy(client, data, 60));
    IS(FOREBAY_CLIENT_STACK, forebay_client_wait(client, 0));
    IS(FOREBAY_CLIENT_STACK, forebay_client_arm(client));
    IS(FOREBAY_CLIENT_STACK, forebay_client_send(client, buffer.number, 60));
    said("the client has an IP stack, which has its frames");
    /* What the program has stays its own. */
    IS(FOREBAY_CLIENT_OK, forebay_client_release(client, frame.number));
    IS(FOREBAY_CLIENT_OK, forebay_client_put_back(client, buffer.number));
    IS(FOREBAY_CLIENT_NO_SOCKET, forebay_client_udp_port(client, 0));
    IS(FOREBAY_CLIENT_NO_SOCKET, forebay_client_udp_close(client, UINT32_MAX));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_udp_open(client, 9500, NULL));
    IS(FOREBAY_CLIENT_OK, forebay_client_udp_open(client, 9500, &number));
    IS(9500, forebay_client_udp_port(client, number));
    IS(FOREBAY_CLIENT_TAKEN, forebay_client_udp_open(client, 9500, &other));
    said("port 9500 has a socket");
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_udp_send(client, number, NULL, data, 1));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_udp_send(client, number, &peer, NULL, 1));
    IS(FOREBAY_CLIENT_ARGUMENT, sent_to(0, near_by, 1, 1));
    IS(FOREBAY_CLIENT_ARGUMENT, sent_to(7, near_by, 1, 1));
    IS(FOREBAY_CLIENT_ARGUMENT, sent_to(4, near_by, 0, 1));
    IS(FOREBAY_CLIENT_NO_WAY, sent_to(4, far_off, 1, 1));
    IS(FOREBAY_CLIENT_LENGTH, sent_to(4, near_by, 1, 1473));
    IS(FOREBAY_CLIENT_LENGTH, sent_to(4, near_by, 1, (size_t)-1));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_udp_receive(client, number, NULL, 1, &bytes, &peer, 0));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_udp_receive(client, number, data, 1, NULL, &peer, 0));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_udp_receive(client, number, data, 1, &bytes, NULL, 0));
    IS(FOREBAY_CLIENT_DUE, forebay_client_udp_receive(client, number, data, 1, &bytes, &peer, 1000));
    IS(FOREBAY_CLIENT_DUE, forebay_client_ip_wait(client, 1000));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_ip_arm(client, NULL));
    IS(FOREBAY_CLIENT_OK, forebay_client_ip_arm(client, &sleep_ns));
    if (sleep_ns == 0 || sleep_ns > 3600000000000u)
        exit(1);
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_ip_get_counts(client, NULL));
    IS(FOREBAY_CLIENT_OK, forebay_client_ip_get_counts(client, &ip_counts));
    if (ip_counts.asked.items != 0 || ip_counts.frames_sent.items != 0)
        exit(1);
    IS(FOREBAY_CLIENT_OK, forebay_client_udp_close(client, number));
    IS(FOREBAY_CLIENT_NO_SOCKET, forebay_client_udp_close(client, number));
    /* What waits when all is closed has its name. */
    IS(FOREBAY_CLIENT_OK, forebay_client_udp_open(client, 9500, &number));
    IS(FOREBAY_CLIENT_OK, sent_to(4, near_by, 1, 7));
    IS(FOREBAY_CLIENT_OK, forebay_client_ip_close(client));
    IS(FOREBAY_CLIENT_OK, forebay_client_ip_get_counts(client, &ip_counts));
    if (ip_counts.asked.bytes != 7 || ip_counts.closed_unsent.bytes != 7 || ip_counts.unsent.items != 0)
        exit(1);
    IS(FOREBAY_CLIENT_NO_SOCKET, forebay_client_udp_port(client, number));
}

static void frames(void)
{
    static const uint32_t wrong[] = {0, 1000000, UINT32_MAX};
    for (int at = 0; at < 3; at++) {
        IS(FOREBAY_CLIENT_NO_FRAME, forebay_client_release(client, wrong[at]));
        IS(FOREBAY_CLIENT_NO_FRAME, forebay_client_send(client, wrong[at], 60));
        IS(FOREBAY_CLIENT_NO_FRAME, forebay_client_put_back(client, wrong[at]));
    }
    said("4294967295 is no buffer that this program has");
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_receive(client, NULL));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_receive(client, (forebay_client_frame *)((char *)&frame + 1)));
    said("not aligned");
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_get_counts(client, NULL));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_get_properties(client, NULL));
    /* By a poll of its own. */
    for (int32_t found; (found = forebay_client_arm(client)) != FOREBAY_CLIENT_FRAME;) {
        struct pollfd own = {forebay_client_descriptor(client), POLLIN, 0};
        IS(FOREBAY_CLIENT_OK, found);
        if (poll(&own, 1, 30000) != 1 || forebay_client_wait(client, 0) < 0)
            exit(1);
    }
    IS(FOREBAY_CLIENT_FRAME, forebay_client_receive(client, &frame));
    if (frame.bytes != 60 || memcmp(frame.data, place.mac, 6))
        exit(1);
    IS(FOREBAY_CLIENT_NO_FRAME, forebay_client_release(client, frame.number + 1));
    IS(FOREBAY_CLIENT_OK, forebay_client_release(client, frame.number));
    IS(FOREBAY_CLIENT_NO_FRAME, forebay_client_release(client, frame.number));
    IS(FOREBAY_CLIENT_OK, forebay_client_receive(client, &frame));
}

static void buffers(void)
{
    uint8_t own[60] = {2, 0, 0, 0, 0, 9};
    memcpy(own + 6, place.mac, 6);
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_reserve(client, NULL));
    IS(FOREBAY_CLIENT_OK, forebay_client_reserve(client, &buffer));
    IS(FOREBAY_CLIENT_LENGTH, forebay_client_send(client, buffer.number, 13));
    IS(FOREBAY_CLIENT_LENGTH, forebay_client_send(client, buffer.number, UINT32_MAX));
    memcpy(buffer.data, own, 60);
    IS(FOREBAY_CLIENT_OK, forebay_client_send(client, buffer.number, 60));
    IS(FOREBAY_CLIENT_NO_FRAME, forebay_client_send(client, buffer.number, 60));
    IS(FOREBAY_CLIENT_NO_FRAME, forebay_client_put_back(client, buffer.number));
    IS(FOREBAY_CLIENT_OK, forebay_client_reserve(client, &buffer));
    IS(FOREBAY_CLIENT_OK, forebay_client_put_back(client, buffer.number));
    IS(FOREBAY_CLIENT_NO_FRAME, forebay_client_put_back(client, buffer.number));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_send_copy(client, NULL, 60));
    IS(FOREBAY_CLIENT_LENGTH, forebay_client_send_copy(client, own, 13));
    IS(FOREBAY_CLIENT_LENGTH, forebay_client_send_copy(client, own, (size_t)-1));
    IS(FOREBAY_CLIENT_OK, forebay_client_send_copy(client, own, 60));
    /* All buffers: the next one is refused, and nothing is lost. */
    for (uint32_t taken = 0; taken < place.transmit_frames; taken++) {
        int32_t code = forebay_client_reserve(client, &buffer);
        if (code == FOREBAY_CLIENT_FULL)
            break;
        IS(FOREBAY_CLIENT_OK, code);
    }
    IS(FOREBAY_CLIENT_FULL, forebay_client_reserve(client, &buffer));
}

static void *waits(void *none)
{
    int32_t code;
    (void)none;
    /* The other thread may be in a call just then, and buffers come back that were sent. */
    do
        code = forebay_client_wait(client, LONG_NS);
    while (code == FOREBAY_CLIENT_BUSY || code == FOREBAY_CLIENT_ROOM || code == FOREBAY_CLIENT_EARLY);
    return (void *)(intptr_t)code;
}

/* A thread that waits is alone with the client: others are told so until a frame comes. */
static void threads(void)
{
    pthread_t thread;
    void *code;
    if (pthread_create(&thread, NULL, waits, NULL))
        exit(1);
    while (forebay_client_flush(client) != FOREBAY_CLIENT_BUSY)
        poll(NULL, 0, 1);
    said("another thread");
    IS(FOREBAY_CLIENT_BUSY, forebay_client_disconnect(&client));
    puts("busy");
    fflush(stdout);
    pthread_join(thread, &code);
    if ((intptr_t)code != FOREBAY_CLIENT_FRAME)
        exit(1);
}

int main(int argc, char **argv)
{
    if (argc != 3 || forebay_client_abi() != FOREBAY_CLIENT_ABI)
        return 2;
    without_a_client(argv[1], argv[2]);
    IS(FOREBAY_CLIENT_OK, forebay_client_connect(argv[1], argv[2], 30000, &client));
    IS(FOREBAY_CLIENT_OK, forebay_client_get_properties(client, &place));
    puts("connected");
    fflush(stdout);
    without_a_stack();
    frames();
    buffers();
    threads();
    IS(FOREBAY_CLIENT_FRAME, forebay_client_receive(client, &frame));
    IS(FOREBAY_CLIENT_OK, forebay_client_get_counts(client, &counts));
    if (counts.received != 2 || counts.sent != 2 || counts.sent_bytes != 120)
        return 1;
    stack();
    IS(FOREBAY_CLIENT_OK, forebay_client_disconnect(&client));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_disconnect(&client));
    puts("all was refused");
    return 0;
}
