// How a C program embeds an index. Start a memory node first, then build and run this:
//
//   cargo build --release -p dm-host -p libdm
//   target/release/dm-memd --size 64MiB --socket /tmp/dm.sock &
//   cc -Idm-host/include dm-host/examples/c/embed.c -Ltarget/release -Wl,-rpath,$PWD/target/release -ldm -o embed
//   ./embed /tmp/dm.sock

#include "dm.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = 32 };

static dm_error error;

// Ends the program if a call failed. Answers such as DM_ABSENT are not failures.
static dm_status must(const char *what, dm_status status) {
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", what, error.text);
        exit(1);
    }
    return status;
}

// The key for a string: see dm_string_pack.
static dm_bytes key_of(const char *string, char slot[KEY_BYTES]) {
    must("key", dm_string_pack((dm_bytes){string, strlen(string)}, slot, KEY_BYTES, &error));
    return (dm_bytes){slot, KEY_BYTES};
}

int main(int count, char **arguments) {
    static const char *const planets[] = {"mercury", "venus", "earth", "mars", "jupiter", "saturn", "uranus", "neptune"};
    static const uint64_t radius_km[] = {2440, 6052, 6371, 3390, 69911, 58232, 25362, 24622};
    char slot[KEY_BYTES];

    dm_pool *pool;
    dm_session *session;
    const dm_parameters parameters = {.kind = "sherman", .key_bytes = KEY_BYTES, .value_bytes = 8};
    if (count < 2) {
        fprintf(stderr, "usage: %s SOCKET...\n", arguments[0]);
        return 64;
    }
    must("pool", dm_pool_connect((const char *const *)arguments + 1, (size_t)count - 1, &pool, &error));
    must("session", dm_session_open_or_create(pool, "planets", &parameters, NULL, &session, &error));

    // Blocking calls.
    for (size_t at = 0; at < 8; at++)
        must("upsert", dm_upsert(session, key_of(planets[at], slot), (dm_bytes){&radius_km[at], 8}, 0, &error));
    uint64_t radius;
    dm_buffer found = {.data = &radius, .capacity = sizeof radius};
    if (must("get", dm_get(session, key_of("earth", slot), &found, 0, &error)) == DM_OK)
        printf("earth has a radius of %llu km\n", (unsigned long long)radius);
    if (must("get", dm_get(session, key_of("vulcan", slot), &found, 0, &error)) == DM_ABSENT)
        printf("vulcan is absent\n");

    // A scan: the names from m on, before n.
    char low_slot[KEY_BYTES], high_slot[KEY_BYTES];
    const dm_bound low = {DM_INCLUDED, key_of("m", low_slot)}, high = {DM_EXCLUDED, key_of("n", high_slot)};
    dm_scan *scan;
    dm_bytes key, value, name;
    must("scan", dm_scan_open(session, &low, &high, &scan, &error));
    while (must("scan", dm_scan_next(scan, &key, &value, 0, &error)) == DM_OK) {
        must("name", dm_string_unpack(key, &name, &error));
        printf("from m to n: %.*s\n", (int)name.length, (const char *)name.data);
    }
    dm_scan_free(scan);

    // Submitted operations: the tag is the planet's number.
    dm_queue *queue;
    must("queue", dm_queue_open(session, 8, &queue, &error));
    for (size_t at = 0; at < 8; at++) {
        const dm_request get = {.operation = DM_GET, .tag = at, .key = key_of(planets[at], slot)};
        must("submit", dm_submit(queue, &get, &error));
    }
    while (dm_queue_pending(queue) > 0) {
        dm_completion completions[4];
        size_t ended;
        struct pollfd readable = {.fd = dm_queue_fd(queue), .events = POLLIN};
        poll(&readable, 1, -1);
        must("poll", dm_queue_poll(queue, completions, 4, &ended, &error));
        for (size_t at = 0; at < ended; at++) {
            const dm_completion *completion = &completions[at];
            if (completion->status == DM_OK) {
                memcpy(&radius, completion->value.data, sizeof radius);
                printf("%s: %llu km\n", planets[completion->tag], (unsigned long long)radius);
            } else {
                printf("%s: %s\n", planets[completion->tag], dm_status_text(completion->status));
            }
        }
    }
    dm_queue_free(queue);

    dm_session_free(session);
    dm_pool_free(pool);
    return 0;
}
