/* Drives libzmq for a comparison: zmq PATTERN ROLE ENDPOINT MESSAGE_BYTES DURATION_MS
 *
 * PATTERN is push_pull, pub_sub or req_rep. ROLE is listen (binds, tells the endpoint on standard error, takes messages
 * until an empty one comes) or send (connects, sends for DURATION_MS, then one empty message). Both sides print one
 * JSON object. A publisher blocks instead of dropping, and waits for its subscriber, so that both sides move the same. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

#define ROUNDS_BEFORE 100
#define ROUNDS_MAX (1u << 23)
#define CLOCK_EVERY 64

static double seconds(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void check(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "error: %s: %s\n", what, zmq_strerror(zmq_errno()));
    exit(2);
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static uint32_t at(const uint32_t *sorted, size_t samples, double share)
{
    return sorted[(size_t)((double)(samples - 1) * share)];
}

static void print_rtt(uint32_t *rtt_ns, size_t samples)
{
    if (samples == 0)
        return;
    qsort(rtt_ns, samples, sizeof *rtt_ns, by_size);
    printf("\"rtt_samples\":%zu,\"rtt_ns_min\":%u,\"rtt_ns_p50\":%u,\"rtt_ns_p90\":%u,\"rtt_ns_p99\":%u,"
           "\"rtt_ns_p999\":%u,\"rtt_ns_max\":%u,",
           samples, rtt_ns[0], at(rtt_ns, samples, 0.5), at(rtt_ns, samples, 0.9), at(rtt_ns, samples, 0.99),
           at(rtt_ns, samples, 0.999), rtt_ns[samples - 1]);
}

static uint64_t stream(void *socket, char *payload, size_t bytes, double until)
{
    uint64_t messages = 0;
    do {
        for (int i = 0; i < CLOCK_EVERY; i++, messages++)
            check(zmq_send(socket, payload, bytes, 0) >= 0, "zmq_send");
    } while (seconds(CLOCK_MONOTONIC) < until);
    return messages;
}

static uint64_t ping(void *socket, char *payload, size_t bytes, double until, uint32_t *rtt_ns, size_t *samples)
{
    uint64_t messages = 0;
    double now = seconds(CLOCK_MONOTONIC);
    while (now < until) {
        double sent = now;
        check(zmq_send(socket, payload, bytes, 0) >= 0, "zmq_send");
        check(zmq_recv(socket, payload, bytes, 0) >= 0, "zmq_recv");
        now = seconds(CLOCK_MONOTONIC);
        if (++messages > ROUNDS_BEFORE && *samples < ROUNDS_MAX)
            rtt_ns[(*samples)++] = (uint32_t)((now - sent) * 1e9);
    }
    return messages;
}

static uint64_t take(void *socket, int answers, double *elapsed)
{
    uint64_t messages = 0;
    double first = 0;
    zmq_msg_t message;
    zmq_msg_init(&message);
    for (;;) {
        check(zmq_msg_recv(&message, socket, 0) >= 0, "zmq_msg_recv");
        size_t length = zmq_msg_size(&message);
        if (answers)
            check(zmq_send(socket, zmq_msg_data(&message), length, 0) >= 0, "zmq_send");
        if (length == 0)
            break;
        if (messages++ == 0)
            first = seconds(CLOCK_MONOTONIC);
    }
    *elapsed = messages ? seconds(CLOCK_MONOTONIC) - first : 0;
    zmq_msg_close(&message);
    return messages;
}

int main(int count, char **words)
{
    if (count != 6)
        return 2;
    int push_pull = !strcmp(words[1], "push_pull"), pub_sub = !strcmp(words[1], "pub_sub");
    int listens = !strcmp(words[2], "listen");
    size_t bytes = strtoul(words[4], NULL, 10);
    double duration = strtod(words[5], NULL) / 1e3, elapsed = 0;
    int type = push_pull ? (listens ? ZMQ_PULL : ZMQ_PUSH) : pub_sub ? (listens ? ZMQ_SUB : ZMQ_XPUB)
                                                                     : (listens ? ZMQ_REP : ZMQ_REQ);
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, type);
    char *payload = calloc(1, bytes);
    uint32_t *rtt_ns = listens || push_pull || pub_sub ? NULL : malloc(ROUNDS_MAX * sizeof *rtt_ns);
    size_t samples = 0;
    uint64_t messages;
    check(socket != NULL && payload != NULL, "zmq_socket");
    if (listens) {
        char endpoint[256];
        size_t length = sizeof endpoint;
        if (type == ZMQ_SUB)
            check(zmq_setsockopt(socket, ZMQ_SUBSCRIBE, "", 0) == 0, "ZMQ_SUBSCRIBE");
        check(zmq_bind(socket, words[3]) == 0, "zmq_bind");
        check(zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &length) == 0, "ZMQ_LAST_ENDPOINT");
        fprintf(stderr, "listening on %s\n", endpoint);
        messages = take(socket, type == ZMQ_REP, &elapsed);
    } else {
        int yes = 1;
        char subscription[16];
        if (type == ZMQ_XPUB)
            check(zmq_setsockopt(socket, ZMQ_XPUB_NODROP, &yes, sizeof yes) == 0, "ZMQ_XPUB_NODROP");
        check(zmq_connect(socket, words[3]) == 0, "zmq_connect");
        if (type == ZMQ_XPUB)
            check(zmq_recv(socket, subscription, sizeof subscription, 0) > 0, "no subscriber");
        double start = seconds(CLOCK_MONOTONIC);
        messages = rtt_ns ? ping(socket, payload, bytes, start + duration, rtt_ns, &samples)
                          : stream(socket, payload, bytes, start + duration);
        elapsed = seconds(CLOCK_MONOTONIC) - start;
        check(zmq_send(socket, "", 0, 0) == 0, "zmq_send");
        if (rtt_ns)
            check(zmq_recv(socket, payload, bytes, 0) >= 0, "zmq_recv");
    }
    printf("{");
    print_rtt(rtt_ns, samples);
    printf("\"messages\":%llu,\"elapsed_s\":%.9f,", (unsigned long long)messages, elapsed);
    zmq_close(socket);
    zmq_ctx_term(context);
    printf("\"cpu_s\":%.6f}\n", seconds(CLOCK_PROCESS_CPUTIME_ID));
    return 0;
}
