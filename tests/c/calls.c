// Calls every function of libdm: what it should do, and what it should refuse. tests/c/run builds and starts it.
//
//   calls SOCKET PID    SOCKET: of a memory node that is the whole pool and is fresh; PID: its daemon, which this ends

#define _POSIX_C_SOURCE 200809L

#include "dm.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

_Static_assert(sizeof(dm_error) == 256, "dm_error");
_Static_assert(DM_OK == 0 && DM_END > 0 && DM_INVALID_ARGUMENT < 0, "signs of dm_status");

static int checked, failed;
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local dm_error error;

static void check(int holds, const char *what, int line) {
    pthread_mutex_lock(&counting);
    checked++;
    if (!holds) {
        failed++;
        printf("calls.c:%d: %s; the last error: %d, %s\n", line, what, (int)error.status, error.text);
    }
    pthread_mutex_unlock(&counting);
}

static void check_status(dm_status status, dm_status expected, const char *what, int line) {
    if (status != expected)
        printf("calls.c:%d: %s, expected %s\n", line, dm_status_text(status), dm_status_text(expected));
    check(status == expected, what, line);
    // `error` says the same, and has a text if and only if the call failed.
    check(error.status == status && (status < 0) == (error.text[0] != 0), "dm_error agrees", line);
}

#define CHECK(condition) check(condition, #condition, __LINE__)
#define GIVES(expected, call) check_status(call, expected, #call, __LINE__)

static dm_bytes bytes(const void *data, size_t length) {
    return (dm_bytes){data, length};
}

static dm_bytes text(const char *string) {
    return bytes(string, strlen(string));
}

static int same(dm_bytes found, const void *data, size_t length) {
    return found.length == length && (length == 0 || memcmp(found.data, data, length) == 0);
}

// ---- records -------------------------------------------------------------------------------------------------------

// Key and value of a number: 8 bytes each; with any length, keys of 1 to 40 bytes and values of 0 to 999.
struct record {
    unsigned char key[64], value[1000];
    size_t key_bytes, value_bytes;
};

static struct record record_of(unsigned number, int any_length) {
    struct record made;
    memset(&made, 0, sizeof made);
    // Big-endian, so that keys are in the order of numbers.
    for (int at = 0; at < 4; at++)
        made.key[at] = (unsigned char)(number >> (24 - 8 * at));
    made.key_bytes = any_length ? 4 + number % 37 : 8;
    made.value_bytes = any_length ? number * 7 % 1000 : 8;
    for (size_t at = 0; at < made.value_bytes; at++)
        made.value[at] = (unsigned char)(number + at);
    return made;
}

static dm_bytes key_of(const struct record *record) {
    return bytes(record->key, record->key_bytes);
}

static dm_bytes value_of(const struct record *record) {
    return bytes(record->value, record->value_bytes);
}

// ---- what is checked -------------------------------------------------------------------------------------------------

static void texts(void) {
    CHECK(strchr(dm_version(), '.') != NULL);
    for (int status = DM_INTERNAL; status <= DM_END; status++)
        CHECK(strlen(dm_status_text(status)) > 3);
    CHECK(strcmp(dm_status_text(1000), dm_status_text(-1000)) == 0);
}

static void strings(void) {
    char slot[16], small[4] = "abc";
    dm_bytes found;
    GIVES(DM_OK, dm_string_pack(text("a key"), slot, sizeof slot, &error));
    GIVES(DM_OK, dm_string_unpack(bytes(slot, sizeof slot), &found, &error));
    CHECK(same(found, "a key", 5));
    GIVES(DM_OK, dm_string_pack(bytes(NULL, 0), slot, sizeof slot, &error));
    GIVES(DM_OK, dm_string_unpack(bytes(slot, sizeof slot), &found, &error));
    CHECK(found.length == 0);
    GIVES(DM_KEY_LENGTH, dm_string_pack(text("four"), small, sizeof small, &error));
    CHECK(strcmp(small, "abc") == 0);
    GIVES(DM_KEY_LENGTH, dm_string_pack(bytes("x", SIZE_MAX), small, sizeof small, &error));
    GIVES(DM_KEY_LENGTH, dm_string_pack(text(""), small, 0, &error));
    GIVES(DM_KEY_LENGTH, dm_string_pack(text(""), small, 257, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_string_pack(bytes(NULL, 1), slot, sizeof slot, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_string_pack(text("x"), NULL, 8, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_string_unpack(bytes("\1\1\1\1", 4), &found, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_string_unpack(bytes("\0", SIZE_MAX), &found, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_string_unpack(bytes(slot, sizeof slot), NULL, &error));
}

static void no_pool(void) {
    dm_pool *pool = (dm_pool *)&pool;
    const char *nowhere = "/nonexistent/socket", *none = NULL, *not_utf8 = "\xff";
    GIVES(DM_CANNOT_CONNECT, dm_pool_connect(&nowhere, 1, &pool, &error));
    CHECK(pool == NULL && strstr(error.text, nowhere) != NULL && error.effect == DM_EFFECT_NONE);
    CHECK(dm_pool_connect(&nowhere, 1, &pool, NULL) == DM_CANNOT_CONNECT);
    GIVES(DM_INVALID_ARGUMENT, dm_pool_connect(&none, 1, &pool, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_pool_connect(&not_utf8, 1, &pool, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_pool_connect(NULL, 1, &pool, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_pool_connect(&nowhere, 0, &pool, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_pool_connect(&nowhere, SIZE_MAX, &pool, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_pool_connect(&nowhere, 1, NULL, &error));
    dm_pool_free(NULL);
}

// Every function refuses NULL for what it needs.
static void null_handles(void) {
    dm_session *session;
    dm_scan *scan;
    dm_queue *queue;
    dm_session_info info;
    dm_completion completion;
    size_t count = 7;
    const dm_request request = {.operation = DM_GET};
    const dm_parameters parameters = {.kind = "smart", .key_bytes = 8, .value_bytes = 8};
    const dm_bytes key = text("12345678");
    GIVES(DM_INVALID_ARGUMENT, dm_session_open(NULL, "x", NULL, &session, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_session_open_or_create(NULL, "x", &parameters, NULL, &session, &error));
    CHECK(session == NULL);
    GIVES(DM_INVALID_ARGUMENT, dm_session_describe(NULL, &info, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_session_close(NULL, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_get(NULL, key, NULL, 0, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_insert(NULL, key, key, NULL, 0, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_update(NULL, key, key, 0, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_upsert(NULL, key, key, 0, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_update_if(NULL, key, key, key, NULL, 0, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_delete(NULL, key, 0, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_delete_if(NULL, key, key, NULL, 0, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_scan_open(NULL, NULL, NULL, &scan, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_scan_next(NULL, NULL, NULL, 0, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_queue_open(NULL, 8, &queue, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_submit(NULL, &request, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_queue_poll(NULL, &completion, 1, &count, &error));
    CHECK(count == 0 && dm_queue_fd(NULL) == -1 && dm_queue_pending(NULL) == 0);
    dm_session_free(NULL);
    dm_scan_free(NULL);
    dm_queue_free(NULL);
}

static void opening(dm_pool *pool) {
    dm_session *session = (dm_session *)&session;
    const dm_parameters good = {.kind = "sherman", .key_bytes = 8, .value_bytes = 8};
    GIVES(DM_NO_INDEX, dm_session_open(pool, "no such index", NULL, &session, &error));
    CHECK(session == NULL && strstr(error.text, "no such index") != NULL);
    GIVES(DM_INVALID_ARGUMENT, dm_session_open(pool, NULL, NULL, &session, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_session_open(pool, "x", NULL, NULL, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_session_open_or_create(pool, "x", NULL, NULL, &session, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_session_open_or_create(pool, "", &good, NULL, &session, &error));
    dm_parameters bad[] = {good, good, good, good, good};
    bad[0].kind = NULL;
    bad[1].kind = "btree";
    bad[2].key_bytes = 7;
    bad[3].value_bytes = UINT64_MAX;
    bad[4].flags = 0x80;
    for (size_t at = 0; at < sizeof bad / sizeof *bad; at++)
        GIVES(DM_INVALID_ARGUMENT, dm_session_open_or_create(pool, "x", &bad[at], NULL, &session, &error));
    const dm_session_options wrong[] = {{.flags = 0x80}, {.workers = 1000000}, {.queue_slots = UINT32_MAX}, {.lease_ms = UINT32_MAX}};
    for (size_t at = 0; at < sizeof wrong / sizeof *wrong; at++)
        GIVES(DM_INVALID_ARGUMENT, dm_session_open_or_create(pool, "x", &good, &wrong[at], &session, &error));
    const dm_session_options large = {.page_records = UINT32_MAX};
    GIVES(DM_CANNOT_OPEN, dm_session_open_or_create(pool, "x", &good, &large, &session, &error));
    CHECK(session == NULL);

    dm_parameters other = good;
    other.value_bytes = 16;
    GIVES(DM_OTHER_INDEX, dm_session_open_or_create(pool, "x", &other, NULL, &session, &error));
    other = good;
    other.kind = "smart";
    GIVES(DM_OTHER_INDEX, dm_session_open_or_create(pool, "x", &other, NULL, &session, &error));
    other = good;
    other.flags = DM_ANY_LENGTH;
    GIVES(DM_OTHER_INDEX, dm_session_open_or_create(pool, "x", &other, NULL, &session, &error));
    CHECK(session == NULL);
}

enum { RECORDS = 400 };

static void point_operations(dm_session *session, int any_length) {
    unsigned char room[1000];
    dm_buffer found = {.data = room, .capacity = sizeof room};
    for (unsigned number = 0; number < RECORDS; number++) {
        const struct record record = record_of(number, any_length);
        GIVES(DM_OK, dm_insert(session, key_of(&record), value_of(&record), &found, 0, &error));
        CHECK(found.length == 0);
    }
    for (unsigned number = 0; number < RECORDS; number++) {
        const struct record record = record_of(number, any_length);
        GIVES(DM_OK, dm_get(session, key_of(&record), &found, 0, &error));
        CHECK(same(bytes(room, found.length), record.value, record.value_bytes));
    }

    const struct record one = record_of(5, any_length), two = record_of(6, any_length), none = record_of(RECORDS, any_length);
    GIVES(DM_ABSENT, dm_get(session, key_of(&none), &found, 0, &error));
    CHECK(found.length == 0);
    GIVES(DM_OK, dm_get(session, key_of(&one), NULL, 0, &error));
    GIVES(DM_EXISTS, dm_insert(session, key_of(&one), value_of(&two), &found, 0, &error));
    CHECK(same(bytes(room, found.length), one.value, one.value_bytes));
    GIVES(DM_EXISTS, dm_insert(session, key_of(&one), value_of(&two), NULL, 0, &error));

    // A buffer that is too small tells the length, and is left alone.
    memset(room, 0x55, sizeof room);
    found.capacity = one.value_bytes - 1;
    GIVES(DM_BUFFER_TOO_SMALL, dm_get(session, key_of(&one), &found, 0, &error));
    CHECK(found.length == one.value_bytes && room[0] == 0x55);
    GIVES(DM_EXISTS, dm_insert(session, key_of(&one), value_of(&two), &found, 0, &error));
    CHECK(found.length == one.value_bytes && room[0] == 0x55);
    dm_buffer nothing = {.data = NULL, .capacity = 1000};
    GIVES(DM_BUFFER_TOO_SMALL, dm_get(session, key_of(&one), &nothing, 0, &error));
    CHECK(nothing.length == one.value_bytes);
    // One that has just the room is filled, and not a byte more is written.
    found.capacity = one.value_bytes;
    GIVES(DM_OK, dm_get(session, key_of(&one), &found, 0, &error));
    CHECK(memcmp(room, one.value, one.value_bytes) == 0 && room[one.value_bytes] == 0x55);
    found.capacity = sizeof room;

    GIVES(DM_OK, dm_update(session, key_of(&one), value_of(&two), 0, &error));
    GIVES(DM_ABSENT, dm_update(session, key_of(&none), value_of(&two), 0, &error));
    GIVES(DM_MISMATCH, dm_update_if(session, key_of(&one), value_of(&one), value_of(&one), &found, 0, &error));
    CHECK(same(bytes(room, found.length), two.value, two.value_bytes));
    GIVES(DM_OK, dm_update_if(session, key_of(&one), value_of(&two), value_of(&one), &found, 0, &error));
    GIVES(DM_ABSENT, dm_update_if(session, key_of(&none), value_of(&two), value_of(&one), NULL, 0, &error));
    GIVES(DM_OK, dm_upsert(session, key_of(&none), value_of(&one), 0, &error));
    GIVES(DM_OK, dm_upsert(session, key_of(&none), value_of(&two), 0, &error));
    GIVES(DM_MISMATCH, dm_delete_if(session, key_of(&none), value_of(&one), &found, 0, &error));
    CHECK(same(bytes(room, found.length), two.value, two.value_bytes));
    GIVES(DM_OK, dm_delete_if(session, key_of(&none), value_of(&two), NULL, 0, &error));
    GIVES(DM_ABSENT, dm_delete_if(session, key_of(&none), value_of(&two), NULL, 0, &error));
    GIVES(DM_OK, dm_delete(session, key_of(&two), 0, &error));
    GIVES(DM_ABSENT, dm_delete(session, key_of(&two), 0, &error));
    GIVES(DM_ABSENT, dm_get(session, key_of(&two), NULL, 0, &error));
    GIVES(DM_OK, dm_insert(session, key_of(&two), value_of(&two), NULL, 0, &error));

    // A microsecond may be enough or not. If not, the operation says so.
    const dm_status status = dm_get(session, key_of(&one), &found, 1, &error);
    CHECK(status == DM_OK || (status == DM_TIMED_OUT && error.effect == DM_EFFECT_NONE));
}

static void wrong_arguments(dm_session *session, int any_length) {
    const struct record one = record_of(5, any_length);
    dm_session_info info;
    GIVES(DM_OK, dm_session_describe(session, &info, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_session_describe(session, NULL, &error));
    CHECK((info.flags == DM_ANY_LENGTH) == any_length && info.row > 0 && info.page_records == 128);
    CHECK(any_length || (info.key_bytes == 8 && info.value_bytes == 8));
    // The bytes are not touched: there are not as many.
    const dm_bytes long_key = bytes(one.key, SIZE_MAX), long_value = bytes(one.value, info.value_bytes + 1);
    const dm_bytes no_data = bytes(NULL, 8);
    GIVES(DM_KEY_LENGTH, dm_get(session, long_key, NULL, 0, &error));
    GIVES(DM_KEY_LENGTH, dm_delete(session, bytes(one.key, info.key_bytes + 1), 0, &error));
    GIVES(DM_VALUE_LENGTH, dm_insert(session, key_of(&one), long_value, NULL, 0, &error));
    GIVES(DM_VALUE_LENGTH, dm_update_if(session, key_of(&one), long_value, value_of(&one), NULL, 0, &error));
    GIVES(DM_VALUE_LENGTH, dm_update_if(session, key_of(&one), value_of(&one), long_value, NULL, 0, &error));
    GIVES(DM_VALUE_LENGTH, dm_delete_if(session, key_of(&one), long_value, NULL, 0, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_get(session, no_data, NULL, 0, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_update(session, key_of(&one), no_data, 0, &error));
    if (!any_length) {
        GIVES(DM_KEY_LENGTH, dm_get(session, bytes(one.key, 7), NULL, 0, &error));
        GIVES(DM_KEY_LENGTH, dm_get(session, bytes(NULL, 0), NULL, 0, &error));
        GIVES(DM_VALUE_LENGTH, dm_upsert(session, key_of(&one), bytes(one.value, 7), 0, &error));
    }

    dm_scan *scan = (dm_scan *)&scan;
    const dm_bound odd = {.kind = 3}, no_key = {DM_INCLUDED, no_data}, long_bound = {DM_EXCLUDED, long_key};
    GIVES(DM_INVALID_ARGUMENT, dm_scan_open(session, &odd, NULL, &scan, &error));
    CHECK(scan == NULL);
    GIVES(DM_INVALID_ARGUMENT, dm_scan_open(session, NULL, &no_key, &scan, &error));
    GIVES(DM_KEY_LENGTH, dm_scan_open(session, NULL, &long_bound, &scan, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_scan_open(session, NULL, NULL, NULL, &error));

    dm_queue *queue = (dm_queue *)&queue;
    GIVES(DM_INVALID_ARGUMENT, dm_queue_open(session, 0, &queue, &error));
    CHECK(queue == NULL);
    GIVES(DM_INVALID_ARGUMENT, dm_queue_open(session, SIZE_MAX, &queue, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_queue_open(session, 8, NULL, &error));
    GIVES(DM_OK, dm_queue_open(session, 8, &queue, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_submit(queue, NULL, &error));
    dm_request request = {.operation = 99, .key = key_of(&one), .value = value_of(&one)};
    GIVES(DM_INVALID_ARGUMENT, dm_submit(queue, &request, &error));
    request.operation = DM_INSERT;
    request.value = long_value;
    GIVES(DM_VALUE_LENGTH, dm_submit(queue, &request, &error));
    request.operation = DM_GET;
    request.key = long_key;
    GIVES(DM_KEY_LENGTH, dm_submit(queue, &request, &error));
    dm_completion completion;
    size_t count = 7;
    GIVES(DM_INVALID_ARGUMENT, dm_queue_poll(queue, NULL, 1, &count, &error));
    GIVES(DM_INVALID_ARGUMENT, dm_queue_poll(queue, &completion, 1, NULL, &error));
    GIVES(DM_OK, dm_queue_poll(queue, &completion, 1, &count, &error));
    CHECK(count == 0 && dm_queue_pending(queue) == 0);
    dm_queue_free(queue);
}

// Numbers of the records from `low` to `high`, as a scan finds them.
static void expect_scan(dm_session *session, const dm_bound *low, const dm_bound *high, unsigned first, unsigned end, int any_length) {
    dm_scan *scan;
    dm_bytes key, value;
    dm_status status;
    GIVES(DM_OK, dm_scan_open(session, low, high, &scan, &error));
    unsigned next = first;
    while ((status = dm_scan_next(scan, &key, &value, 0, &error)) == DM_OK) {
        const struct record record = record_of(next++, any_length);
        CHECK(same(key, record.key, record.key_bytes) && same(value, record.value, record.value_bytes));
    }
    CHECK(status == DM_END && next == end);
    GIVES(DM_END, dm_scan_next(scan, NULL, NULL, 0, &error));
    dm_scan_free(scan);
}

static void scans(dm_session *session, int any_length) {
    const struct record ten = record_of(10, any_length), last = record_of(300, any_length);
    const dm_bound from = {DM_INCLUDED, key_of(&ten)}, behind = {DM_EXCLUDED, key_of(&ten)};
    const dm_bound to = {DM_INCLUDED, key_of(&last)}, before = {DM_EXCLUDED, key_of(&last)};
    const dm_bound none = {.kind = DM_UNBOUNDED};
    // 400 records are several pages.
    expect_scan(session, NULL, NULL, 0, RECORDS, any_length);
    expect_scan(session, &none, &none, 0, RECORDS, any_length);
    expect_scan(session, &from, &to, 10, 301, any_length);
    expect_scan(session, &behind, &before, 11, 300, any_length);
    expect_scan(session, &behind, &from, 11, 11, any_length);
}

// ---- queues --------------------------------------------------------------------------------------------------------

static int readable(dm_queue *queue, int wait_ms) {
    struct pollfd fd = {.fd = dm_queue_fd(queue), .events = POLLIN};
    int ready;
    do
        ready = poll(&fd, 1, wait_ms);
    while (ready < 0 && errno == EINTR);
    return ready == 1;
}

enum { CAPACITY = 32 };

static void queues(dm_session *session, int any_length) {
    dm_queue *queue;
    dm_completion completions[5];
    size_t count, ended = 0;
    unsigned char times[RECORDS] = {0};
    GIVES(DM_OK, dm_queue_open(session, CAPACITY, &queue, &error));
    CHECK(!readable(queue, 0));

    // Nobody polls: the queue takes its capacity and no more.
    unsigned next = 0;
    dm_status status = DM_OK;
    while (status == DM_OK && next < RECORDS) {
        const struct record record = record_of(next, any_length);
        const dm_request get = {.operation = DM_GET, .tag = next, .key = key_of(&record)};
        status = dm_submit(queue, &get, &error);
        next += status == DM_OK;
    }
    CHECK(status == DM_QUEUE_FULL && next == CAPACITY && dm_queue_pending(queue) == CAPACITY);

    // Then all of them through the queue, five completions at a time. Each comes once, with its own value.
    while (ended < RECORDS) {
        CHECK(readable(queue, 60000));
        GIVES(DM_OK, dm_queue_poll(queue, completions, 5, &count, &error));
        for (size_t at = 0; at < count; at++) {
            const dm_completion *completion = &completions[at];
            CHECK(completion->tag < next && times[completion->tag]++ == 0);
            const struct record record = record_of((unsigned)completion->tag, any_length);
            CHECK(completion->status == DM_OK && completion->effect == DM_EFFECT_NONE && completion->text[0] == 0);
            CHECK(same(completion->value, record.value, record.value_bytes));
        }
        ended += count;
        for (; next < RECORDS && dm_queue_pending(queue) < CAPACITY; next++) {
            const struct record record = record_of(next, any_length);
            const dm_request get = {.operation = DM_GET, .tag = next, .key = key_of(&record), .timeout_us = 60000000};
            GIVES(DM_OK, dm_submit(queue, &get, &error));
        }
    }
    GIVES(DM_OK, dm_queue_poll(queue, completions, 5, &count, &error));
    CHECK(count == 0 && dm_queue_pending(queue) == 0 && !readable(queue, 0));

    // Every operation, one after the other, with the answer that the blocking call gives.
    const struct record one = record_of(5, any_length), two = record_of(6, any_length), none = record_of(RECORDS, any_length);
    const struct {
        dm_request request;
        dm_status status;
        dm_bytes found;
    } steps[] = {
        {{.operation = DM_GET, .key = key_of(&none)}, DM_ABSENT, {NULL, 0}},
        {{.operation = DM_INSERT, .key = key_of(&none), .value = value_of(&one)}, DM_OK, {NULL, 0}},
        {{.operation = DM_INSERT, .key = key_of(&none), .value = value_of(&two)}, DM_EXISTS, value_of(&one)},
        {{.operation = DM_UPDATE, .key = key_of(&none), .value = value_of(&two)}, DM_OK, {NULL, 0}},
        {{.operation = DM_UPDATE_IF, .key = key_of(&none), .expected = value_of(&one), .value = value_of(&one)}, DM_MISMATCH, value_of(&two)},
        {{.operation = DM_UPDATE_IF, .key = key_of(&none), .expected = value_of(&two), .value = value_of(&one)}, DM_OK, {NULL, 0}},
        {{.operation = DM_DELETE_IF, .key = key_of(&none), .expected = value_of(&two)}, DM_MISMATCH, value_of(&one)},
        {{.operation = DM_DELETE_IF, .key = key_of(&none), .expected = value_of(&one)}, DM_OK, {NULL, 0}},
        {{.operation = DM_UPDATE, .key = key_of(&none), .value = value_of(&two)}, DM_ABSENT, {NULL, 0}},
        {{.operation = DM_UPSERT, .key = key_of(&none), .value = value_of(&two)}, DM_OK, {NULL, 0}},
        {{.operation = DM_DELETE, .key = key_of(&none)}, DM_OK, {NULL, 0}},
        {{.operation = DM_DELETE, .key = key_of(&none)}, DM_ABSENT, {NULL, 0}},
    };
    for (size_t at = 0; at < sizeof steps / sizeof *steps; at++) {
        GIVES(DM_OK, dm_submit(queue, &steps[at].request, &error));
        do {
            CHECK(readable(queue, 60000));
            GIVES(DM_OK, dm_queue_poll(queue, completions, 5, &count, &error));
        } while (count == 0);
        CHECK(count == 1 && completions[0].status == steps[at].status);
        CHECK(same(completions[0].value, steps[at].found.data, steps[at].found.length));
    }

    // Freed with operations in it, which run on.
    for (unsigned number = 0; number < CAPACITY; number++) {
        const struct record record = record_of(number, any_length);
        const dm_request update = {.operation = DM_UPDATE, .key = key_of(&record), .value = value_of(&record)};
        GIVES(DM_OK, dm_submit(queue, &update, &error));
    }
    dm_queue_free(queue);
}

// Two threads submit, a third one polls, and a fourth one blocks.
static dm_queue *shared_queue;
static dm_session *shared_session;

static void *submits(void *from) {
    for (unsigned number = *(const unsigned *)from; number < RECORDS; number += 2) {
        const struct record record = record_of(number, 0);
        const dm_request update = {.operation = DM_UPDATE, .tag = number, .key = key_of(&record), .value = value_of(&record)};
        dm_status status;
        while ((status = dm_submit(shared_queue, &update, &error)) == DM_QUEUE_FULL)
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        CHECK(status == DM_OK);
    }
    return NULL;
}

static void *blocks(void *unused) {
    for (unsigned number = 0; number < RECORDS; number++) {
        const struct record record = record_of(number, 0);
        uint64_t room;
        dm_buffer found = {.data = &room, .capacity = sizeof room};
        GIVES(DM_OK, dm_get(shared_session, key_of(&record), &found, 0, &error));
        CHECK(same(bytes(&room, found.length), record.value, record.value_bytes));
    }
    return unused;
}

static void threads(dm_session *session) {
    shared_session = session;
    GIVES(DM_OK, dm_queue_open(session, CAPACITY, &shared_queue, &error));
    const unsigned from[] = {0, 1};
    pthread_t running[3];
    for (int at = 0; at < 2; at++)
        CHECK(pthread_create(&running[at], NULL, submits, (void *)&from[at]) == 0);
    CHECK(pthread_create(&running[2], NULL, blocks, NULL) == 0);
    uint64_t sum = 0;
    for (size_t ended = 0, count; ended < RECORDS; ended += count) {
        dm_completion completions[7];
        CHECK(readable(shared_queue, 60000));
        GIVES(DM_OK, dm_queue_poll(shared_queue, completions, 7, &count, &error));
        for (size_t at = 0; at < count; at++) {
            CHECK(completions[at].status == DM_OK);
            sum += completions[at].tag;
        }
    }
    CHECK(sum == (uint64_t)RECORDS * (RECORDS - 1) / 2);
    for (int at = 0; at < 3; at++)
        pthread_join(running[at], NULL);
    dm_queue_free(shared_queue);
}

// ---- the end -------------------------------------------------------------------------------------------------------

static void closed(dm_session *session) {
    const struct record one = record_of(5, 0);
    const dm_request get = {.operation = DM_GET, .tag = 1, .key = key_of(&one)};
    dm_scan *scan, *late_scan;
    dm_queue *queue;
    dm_completion completion;
    dm_session_info info;
    size_t count;
    GIVES(DM_OK, dm_scan_open(session, NULL, NULL, &scan, &error));
    GIVES(DM_OK, dm_scan_next(scan, NULL, NULL, 0, &error));
    GIVES(DM_OK, dm_queue_open(session, 8, &queue, &error));
    GIVES(DM_OK, dm_submit(queue, &get, &error));
    GIVES(DM_OK, dm_session_close(session, &error));
    GIVES(DM_OK, dm_session_close(session, &error));

    // What was queued was finished.
    CHECK(readable(queue, 60000));
    GIVES(DM_OK, dm_queue_poll(queue, &completion, 1, &count, &error));
    CHECK(count == 1 && completion.tag == 1 && completion.status == DM_OK && same(completion.value, one.value, 8));
    GIVES(DM_CLOSED, dm_submit(queue, &get, &error));
    CHECK(dm_queue_pending(queue) == 0);
    GIVES(DM_CLOSED, dm_get(session, key_of(&one), NULL, 0, &error));
    GIVES(DM_CLOSED, dm_insert(session, key_of(&one), value_of(&one), NULL, 0, &error));
    CHECK(error.effect == DM_EFFECT_NONE);
    GIVES(DM_CLOSED, dm_upsert(session, key_of(&one), value_of(&one), 0, &error));
    GIVES(DM_CLOSED, dm_delete(session, key_of(&one), 0, &error));
    GIVES(DM_OK, dm_session_describe(session, &info, &error));
    GIVES(DM_OK, dm_scan_open(session, NULL, NULL, &late_scan, &error));
    GIVES(DM_CLOSED, dm_scan_next(late_scan, NULL, NULL, 0, &error));
    dm_scan_free(late_scan);
    // The first page is here: 128 records. The second one is not.
    for (int at = 1; at < 128; at++)
        GIVES(DM_OK, dm_scan_next(scan, NULL, NULL, 0, &error));
    GIVES(DM_CLOSED, dm_scan_next(scan, NULL, NULL, 0, &error));

    // The session is freed before what was made from it.
    dm_session_free(session);
    GIVES(DM_CLOSED, dm_submit(queue, &get, &error));
    GIVES(DM_CLOSED, dm_scan_next(scan, NULL, NULL, 0, &error));
    dm_queue_free(queue);
    dm_scan_free(scan);
}

static void node_down(dm_session *session, pid_t daemon) {
    const struct record one = record_of(5, 0);
    dm_queue *queue;
    dm_completion completion;
    size_t count;
    GIVES(DM_OK, dm_queue_open(session, 8, &queue, &error));
    CHECK(kill(daemon, SIGKILL) == 0);
    dm_status status = DM_OK;
    for (int tries = 0; status == DM_OK && tries < 6000; tries++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        status = dm_update(session, key_of(&one), value_of(&one), 0, &error);
    }
    CHECK((status == DM_NODE_DOWN || status == DM_BROKEN || status == DM_FENCED) && error.text[0] != 0);
    const dm_request get = {.operation = DM_GET, .tag = 1, .key = key_of(&one)};
    if (dm_submit(queue, &get, &error) == DM_OK) {
        CHECK(readable(queue, 60000));
        GIVES(DM_OK, dm_queue_poll(queue, &completion, 1, &count, &error));
        CHECK(count == 1 && completion.status < 0 && completion.text[0] != 0 && completion.value.length == 0);
    } else {
        CHECK(error.status == DM_NODE_DOWN || error.status == DM_BROKEN || error.status == DM_FENCED);
    }
    printf("with its memory node gone, an update fails with: %s\n", dm_status_text(status));
    dm_queue_free(queue);
}

int main(int count, char **arguments) {
    static const struct {
        const char *name;
        dm_parameters parameters;
    } indexes[] = {
        {"sherman", {.kind = "sherman", .key_bytes = 8, .value_bytes = 8}},
        {"chime", {.kind = "chime", .key_bytes = 8, .value_bytes = 8}},
        {"smart", {.kind = "smart", .key_bytes = 8, .value_bytes = 8}},
        {"any length", {.kind = "sherman", .flags = DM_ANY_LENGTH, .key_bytes = 40, .value_bytes = 1000}},
    };
    // What a machine with two processors and a checker that makes all of it fifty times slower need.
    const dm_session_options options = {.flags = DM_NO_SPIN, .workers = 2, .queue_slots = 16, .lease_ms = 60000, .cache_bytes = 1 << 20};
    dm_pool *pool;
    dm_session *session;
    if (count != 3) {
        fprintf(stderr, "usage: %s SOCKET PID\n", arguments[0]);
        return 64;
    }
    texts();
    strings();
    no_pool();
    null_handles();
    GIVES(DM_OK, dm_pool_connect((const char *const *)arguments + 1, 1, &pool, &error));
    if (pool == NULL)
        return 1;
    opening(pool);
    for (size_t at = 0; at < sizeof indexes / sizeof *indexes; at++) {
        const int any_length = indexes[at].parameters.flags == DM_ANY_LENGTH;
        const int before = checked;
        GIVES(DM_OK, dm_session_open_or_create(pool, indexes[at].name, &indexes[at].parameters, &options, &session, &error));
        if (session == NULL)
            return 1;
        point_operations(session, any_length);
        wrong_arguments(session, any_length);
        scans(session, any_length);
        queues(session, any_length);
        if (any_length) {
            dm_session_free(session);
        } else {
            threads(session);
            closed(session);
        }
        printf("%-10s %6d checks\n", indexes[at].name, checked - before);
    }
    // The index is there for the next session, and the pool stays connected as long as a session is open.
    GIVES(DM_OK, dm_session_open(pool, "sherman", &options, &session, &error));
    dm_pool_free(pool);
    scans(session, 0);
    node_down(session, (pid_t)strtol(arguments[2], NULL, 10));
    dm_session_free(session);
    printf("%d checks, %d failed\n", checked, failed);
    return failed != 0;
}
