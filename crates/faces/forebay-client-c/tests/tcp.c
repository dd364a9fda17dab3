/* Connections of TCP both ways with a peer that has sockets of its own system, and what goes wrong with them. */
#include "forebay_client.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t LONG_NS = 30000000000u;
enum { SENT = 100000 };
static forebay_client *client;
static forebay_client_ip_counts counts;
static uint8_t data[SENT], back[SENT];
static forebay_client_endpoint peer;
static uint32_t listener, number, other;
static size_t bytes;

#define IS(expected, call) is(expected, call, __LINE__, #call)

static void is(int32_t expected, int32_t found, int line, const char *call)
{
    if (expected == found)
        return;
    fprintf(stderr, "line %d: %s is %s, not %s: %s\n", line, call, forebay_client_code_name(found),
            forebay_client_code_name(expected), forebay_client_error_text());
    exit(1);
}

static void holds(int what, int line)
{
    if (what)
        return;
    fprintf(stderr, "line %d does not hold\n", line);
    exit(1);
}

static void tell(const char *what)
{
    puts(what);
    fflush(stdout);
}

static void send_all(const uint8_t *from, size_t left)
{
    while (left > 0) {
        size_t sent;
        IS(FOREBAY_CLIENT_READY, forebay_client_tcp_send(client, number, from, left, &sent, LONG_NS));
        from += sent;
        left -= sent;
    }
}

/* As a server: what comes goes back, until the peer has said all. */
static void answers(void)
{
    uint64_t echoed = 0;
    IS(FOREBAY_CLIENT_OK, forebay_client_tcp_listen(client, 9500, 2, &listener));
    IS(9500, forebay_client_tcp_port(client, listener));
    IS(FOREBAY_CLIENT_TAKEN, forebay_client_tcp_listen(client, 9500, 2, &other));
    IS(FOREBAY_CLIENT_DUE, forebay_client_tcp_accept(client, listener, &number, &peer, 0));
    tell("listening");
    IS(FOREBAY_CLIENT_READY, forebay_client_tcp_accept(client, listener, &number, &peer, LONG_NS));
    holds(peer.address.version == 4 && peer.address.bytes[3] == 9 && peer.port != 0, __LINE__);
    for (;;) {
        IS(FOREBAY_CLIENT_READY, forebay_client_tcp_receive(client, number, data, sizeof data, &bytes, LONG_NS));
        if (bytes == 0)
            break;
        send_all(data, bytes);
        echoed += bytes;
    }
    IS(FOREBAY_CLIENT_OK, forebay_client_tcp_close(client, number));
    IS(FOREBAY_CLIENT_NO_SOCKET, forebay_client_tcp_close(client, number));
    IS(FOREBAY_CLIENT_OK, forebay_client_flush(client));
    printf("echoed %" PRIu64 "\n", echoed);
    fflush(stdout);
}

/* As a client of the peer, which sends all back. */
static void asks(uint16_t port)
{
    size_t had = 0;
    peer.port = 1;
    IS(FOREBAY_CLIENT_PEER_REFUSED, forebay_client_tcp_connect(client, &peer, LONG_NS, &number));
    holds(number == 0, __LINE__);
    peer.port = port;
    IS(FOREBAY_CLIENT_READY, forebay_client_tcp_connect(client, &peer, LONG_NS, &number));
    IS(FOREBAY_CLIENT_DUE, forebay_client_tcp_receive(client, number, back, sizeof back, &bytes, 0));
    for (size_t at = 0; at < SENT; at++)
        data[at] = (uint8_t)(at % 251);
    send_all(data, SENT);
    IS(FOREBAY_CLIENT_OK, forebay_client_tcp_shut_down(client, number));
    IS(FOREBAY_CLIENT_SHUT_DOWN, forebay_client_tcp_send(client, number, data, 1, &bytes, 0));
    do {
        IS(FOREBAY_CLIENT_READY, forebay_client_tcp_receive(client, number, back + had, SENT - had + (had == SENT), &bytes, LONG_NS));
        had += bytes;
    } while (bytes > 0);
    holds(had == SENT && memcmp(data, back, SENT) == 0, __LINE__);
    IS(FOREBAY_CLIENT_OK, forebay_client_tcp_close(client, number));
}

/* A peer that ends a connection before its time. */
static void is_reset(void)
{
    tell("again");
    IS(FOREBAY_CLIENT_READY, forebay_client_tcp_accept(client, listener, &number, &peer, LONG_NS));
    send_all((const uint8_t *)"unread", 6);
    IS(FOREBAY_CLIENT_PEER_RESET, forebay_client_tcp_receive(client, number, back, 1, &bytes, LONG_NS));
    IS(FOREBAY_CLIENT_PEER_RESET, forebay_client_tcp_send(client, number, data, 1, &bytes, 0));
    IS(FOREBAY_CLIENT_PEER_RESET, forebay_client_tcp_shut_down(client, number));
    IS(FOREBAY_CLIENT_OK, forebay_client_tcp_close(client, number));
}

static void wrong(void)
{
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_tcp_connect(client, NULL, 0, &number));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_tcp_connect(client, &peer, 0, NULL));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_tcp_connect(NULL, &peer, 0, &number));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_tcp_listen(client, 1, 0, &other));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_tcp_listen(client, 1, 1, NULL));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_tcp_accept(client, listener, NULL, &peer, 0));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_tcp_accept(client, listener, &number, NULL, 0));
    IS(FOREBAY_CLIENT_NO_SOCKET, forebay_client_tcp_accept(client, 99, &number, &peer, 0));
    IS(FOREBAY_CLIENT_NO_SOCKET, forebay_client_tcp_send(client, listener, data, 1, &bytes, 0));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_tcp_send(client, 99, NULL, 1, &bytes, 0));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_tcp_send(client, 99, data, 1, NULL, 0));
    IS(FOREBAY_CLIENT_LENGTH, forebay_client_tcp_send(client, 99, data, (size_t)-1, &bytes, 0));
    IS(FOREBAY_CLIENT_NO_SOCKET, forebay_client_tcp_receive(client, 99, data, 1, &bytes, 0));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_tcp_receive(client, 99, data, 0, &bytes, 0));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_tcp_receive(client, 99, NULL, 1, &bytes, 0));
    IS(FOREBAY_CLIENT_ARGUMENT, forebay_client_tcp_receive(client, 99, data, 1, NULL, 0));
    IS(FOREBAY_CLIENT_NO_SOCKET, forebay_client_tcp_shut_down(client, 99));
    IS(FOREBAY_CLIENT_NO_SOCKET, forebay_client_tcp_port(client, 99));
}

int main(int argc, char **argv)
{
    const forebay_client_tcp_counts *tcp = &counts.tcp;
    if (argc != 4)
        return 2;
    IS(FOREBAY_CLIENT_OK, forebay_client_connect(argv[1], argv[2], 30000, &client));
    IS(FOREBAY_CLIENT_STACK, forebay_client_tcp_listen(client, 9500, 1, &listener));
    IS(FOREBAY_CLIENT_OK, forebay_client_ip_open(client, NULL));
    answers();
    asks((uint16_t)atoi(argv[3]));
    is_reset();
    wrong();
    IS(FOREBAY_CLIENT_OK, forebay_client_ip_close(client));
    IS(FOREBAY_CLIENT_NO_SOCKET, forebay_client_tcp_port(client, listener));
    IS(FOREBAY_CLIENT_OK, forebay_client_ip_get_counts(client, &counts));
    holds(tcp->received_bytes == tcp->taken_bytes + tcp->closed_unread_bytes && tcp->unread_bytes == 0, __LINE__);
    holds(tcp->asked_bytes == tcp->acknowledged_bytes + tcp->closed_unacknowledged_bytes && tcp->unacknowledged_bytes == 0, __LINE__);
    holds(tcp->refused == 1 && tcp->reset == 1 && tcp->timed_out == 0, __LINE__);
    holds(counts.segments_sent.bytes >= tcp->acknowledged_bytes && counts.segments_received.bytes >= tcp->received_bytes, __LINE__);
    printf("taken %" PRIu64 ", asked %" PRIu64 "\n", tcp->taken_bytes, tcp->asked_bytes);
    IS(FOREBAY_CLIENT_OK, forebay_client_disconnect(&client));
    return 0;
}
