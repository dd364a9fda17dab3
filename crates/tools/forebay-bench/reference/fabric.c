/* Drives libfabric bare, for a comparison: fabric PATTERN ROLE PROVIDER ADDRESS MESSAGE_BYTES PAGES DURATION_MS
 *
 * PATTERN is stream, in_place or rtt. ROLE is listen (tells its address on standard error, takes messages until an empty one
 * comes) or send (sends for DURATION_MS, then an empty message). Both sides have PAGES buffers of MESSAGE_BYTES each way
 * and look at their queue again and again. A sender of a stream copies its payload into each page, as a program does
 * that has something to say; in place it sends pages as they are. Both print one JSON object.
 * Providers have connections (FI_EP_MSG). */
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#define ROUNDS_BEFORE 100
#define ROUNDS_MAX (1u << 23)
#define BATCH 16
#define SPINS 1000
#define ADDRESS_MAX 256

struct page {
    struct fi_context2 context;
    char *bytes;
    int receives;
    struct page *next;
};

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_eq *eq;
static struct fid_cq *cq;
static struct fid_ep *ep;
static void *description;
static size_t page_bytes, pages;
static char *memory;
static struct page *all, *free_pages;
static size_t under_way, came_len;
/* What has come and is not taken yet, in order. */
static struct page *came, **came_end = &came;
static size_t *lengths;

static double seconds(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static long check(long code, const char *what)
{
    if (code >= 0)
        return code;
    fprintf(stderr, "error: %s: %s\n", what, fi_strerror((int)-code));
    exit(2);
}

static void post(struct page *page)
{
    check(fi_recv(ep, page->bytes, page_bytes, description, FI_ADDR_UNSPEC, &page->context), "fi_recv");
}

/* Looks once for what is complete. */
static void look(void)
{
    static unsigned idle;
    struct fi_cq_msg_entry entries[BATCH];
    long count = fi_cq_read(cq, entries, BATCH);
    if (count == -FI_EAGAIN) {
        if (++idle % SPINS == 0)
            sched_yield();
        return;
    }
    check(count, "fi_cq_read");
    for (long at = 0; at < count; at++) {
        struct page *page = entries[at].op_context;
        if (page->receives) {
            lengths[page - all] = entries[at].len;
            page->next = NULL;
            *came_end = page;
            came_end = &page->next;
        } else {
            page->next = free_pages;
            free_pages = page;
            under_way--;
        }
    }
}

static struct page *take(void)
{
    while (!came)
        look();
    struct page *page = came;
    came = page->next;
    if (!came)
        came_end = &came;
    came_len = lengths[page - all];
    return page;
}

static void send_page(const char *payload, size_t bytes)
{
    while (!free_pages)
        look();
    struct page *page = free_pages;
    free_pages = page->next;
    if (payload)
        memcpy(page->bytes, payload, bytes);
    long code;
    while ((code = fi_send(ep, page->bytes, bytes, description, FI_ADDR_UNSPEC, &page->context)) == -FI_EAGAIN)
        look();
    check(code, "fi_send");
    under_way++;
}

static void open_end(struct fi_info *info)
{
    struct fi_cq_attr queue = {.size = 2 * pages + 1, .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_NONE};
    size_t bytes = 2 * pages * page_bytes;
    if (!domain)
        check(fi_domain(fabric, info, &domain, NULL), "fi_domain");
    check(fi_cq_open(domain, &queue, &cq, NULL), "fi_cq_open");
    check(fi_endpoint(domain, info, &ep, NULL), "fi_endpoint");
    check(fi_ep_bind(ep, &eq->fid, 0), "fi_ep_bind");
    check(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    check(fi_enable(ep), "fi_enable");
    memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    all = calloc(2 * pages, sizeof *all);
    lengths = calloc(2 * pages, sizeof *lengths);
    check(memory && all && lengths ? 0 : -ENOMEM, "memory");
    memset(memory, 0x5a, bytes);
    if (info->domain_attr->mr_mode & FI_MR_LOCAL) {
        struct fid_mr *mr;
        check(fi_mr_reg(domain, memory, bytes, FI_SEND | FI_RECV, 0, 1, 0, &mr, NULL), "fi_mr_reg");
        description = fi_mr_desc(mr);
    }
    for (size_t at = 0; at < 2 * pages; at++) {
        all[at].bytes = memory + at * page_bytes;
        all[at].receives = at < pages;
        if (at < pages) {
            post(&all[at]);
        } else {
            all[at].next = free_pages;
            free_pages = &all[at];
        }
    }
}

static struct fi_info *wait_event(uint32_t wanted)
{
    struct {
        struct fi_eq_cm_entry entry;
        char more[256];
    } event;
    struct fi_eq_err_entry error = {0};
    uint32_t kind = 0;
    long count = fi_eq_sread(eq, &kind, &event, sizeof event, 20000, 0);
    if (count == -FI_EAVAIL && fi_eq_readerr(eq, &error, 0) > 0)
        check(-error.err, "the connection");
    check(count, "fi_eq_sread");
    check(kind == wanted ? 0 : -FI_EOTHER, "an event of the connection");
    return event.entry.info;
}

static void open_all(const char *provider, const char *address, int listens)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fi_eq_attr events = {.wait_obj = FI_WAIT_UNSPEC};
    char text[ADDRESS_MAX], *port;
    hints->fabric_attr->prov_name = strdup(provider);
    hints->ep_attr->type = FI_EP_MSG;
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
    hints->tx_attr->size = pages + 1;
    hints->rx_attr->size = pages;
    snprintf(text, sizeof text, "%s", address);
    port = strrchr(text, ':');
    check(port ? 0 : -EINVAL, "an address without a port");
    *port++ = 0;
    check(fi_getinfo(FI_VERSION(1, 17), text, port, listens ? FI_SOURCE : 0, hints, &info), "fi_getinfo");
    check(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
    check(fi_eq_open(fabric, &events, &eq, NULL), "fi_eq_open");
    if (listens) {
        struct fid_pep *door;
        uint32_t where[ADDRESS_MAX / 4];
        size_t length = sizeof where;
        check(fi_passive_ep(fabric, info, &door, NULL), "fi_passive_ep");
        check(fi_pep_bind(door, &eq->fid, 0), "fi_pep_bind");
        check(fi_listen(door), "fi_listen");
        check(fi_getname(&door->fid, where, &length), "fi_getname");
        const unsigned char *port_bytes = (unsigned char *)where + 2;
        fprintf(stderr, "listening on %s:%u\n", text, port_bytes[0] * 256u + port_bytes[1]);
        open_end(wait_event(FI_CONNREQ));
        check(fi_accept(ep, NULL, 0), "fi_accept");
    } else {
        open_end(info);
        check(fi_connect(ep, info->dest_addr, NULL, 0), "fi_connect");
    }
    wait_event(FI_CONNECTED);
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

int main(int count, char **words)
{
    if (count != 8)
        return 2;
    int rtt = !strcmp(words[1], "rtt"), in_place = !strcmp(words[1], "in_place"), listens = !strcmp(words[2], "listen");
    page_bytes = strtoul(words[5], NULL, 10);
    pages = strtoul(words[6], NULL, 10);
    size_t bytes = page_bytes;
    double duration = strtod(words[7], NULL) / 1e3, first = 0, last;
    char *payload = malloc(bytes);
    uint32_t *rtt_ns = listens || !rtt ? NULL : malloc(ROUNDS_MAX * sizeof *rtt_ns);
    size_t samples = 0;
    uint64_t messages = 0;
    check(payload ? 0 : -ENOMEM, "memory");
    memset(payload, 0x5a, bytes);
    open_all(words[3], words[4], listens);
    if (listens) {
        for (;;) {
            struct page *page = take();
            if (came_len == 0)
                break;
            if (messages++ == 0)
                first = seconds(CLOCK_MONOTONIC);
            if (rtt)
                send_page(payload, bytes);
            post(page);
        }
        last = seconds(CLOCK_MONOTONIC);
        send_page(NULL, 0);
    } else {
        double now = first = seconds(CLOCK_MONOTONIC), until = first + duration;
        while (now < until || (rtt && !samples)) {
            if (rtt) {
                double sent = now;
                send_page(payload, bytes);
                post(take());
                now = seconds(CLOCK_MONOTONIC);
                if (++messages > ROUNDS_BEFORE && samples < ROUNDS_MAX)
                    rtt_ns[samples++] = (uint32_t)((now - sent) * 1e9);
                continue;
            }
            for (int at = 0; at < 64; at++, messages++)
                send_page(in_place ? NULL : payload, bytes);
            now = seconds(CLOCK_MONOTONIC);
        }
        send_page(NULL, 0);
        take();
        last = seconds(CLOCK_MONOTONIC);
    }
    while (under_way)
        look();
    printf("{");
    if (samples) {
        qsort(rtt_ns, samples, sizeof *rtt_ns, by_size);
        printf("\"rtt_samples\":%zu,\"rtt_ns_p50\":%u,\"rtt_ns_p99\":%u,", samples, rtt_ns[samples / 2],
               rtt_ns[(samples - 1) * 99 / 100]);
    }
    printf("\"messages\":%llu,\"elapsed_s\":%.9f,\"cpu_s\":%.6f}\n", (unsigned long long)messages,
           messages ? last - first : 0.0, seconds(CLOCK_PROCESS_CPUTIME_ID));
    fflush(stdout);
    if (ep)
        fi_close(&ep->fid);
    return 0;
}
