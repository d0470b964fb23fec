/* The driver of `src/driver.rs`, in C: polls all lanes in turn, and executes what they ask for. Around every submit it
 * also makes calls that a driver must not make (`misuse`), and counts those that were not refused as dm.h says. */
#include "dm.h"

enum { LANES_MAX = 8 };

enum wait { TURN, PAUSED, PARKED, ENDED };

struct lane {
    enum wait wait;
    uint64_t since_ns;
    uint64_t wait_ns;
    /* Woken by another lane. A wake that comes before the park counts. */
    uint8_t woken;
};

static void copy(uint8_t *to, const uint8_t *from, uint32_t bytes) {
    while (bytes-- > 0)
        *to++ = *from++;
}

/* Words of remote memory are little-endian, and so are the boards. */
static uint64_t load(const uint8_t *at) {
    uint64_t word = 0;
    copy((uint8_t *)&word, at, sizeof word);
    return word;
}

static void store(uint8_t *at, uint64_t word) {
    copy(at, (const uint8_t *)&word, sizeof word);
}

/* Executes a request on the memory node. */
static struct dm_completion execute(const struct dm_request *request, uint8_t *scratch, uint32_t scratch_bytes, uint8_t *region,
                                    uint32_t region_bytes) {
    struct dm_completion completion = {0};
    const uint64_t *operands = request->operands;
    const uint32_t bytes = request->bytes, local = request->local;
    const int fits = local <= scratch_bytes && bytes <= scratch_bytes - local;
    if (request->verb == DM_RPC || request->node != 0 || request->space != 0) {
        completion.status = DM_UNSUPPORTED;
        return completion;
    }
    completion.status = DM_REFUSED;
    if (request->offset > region_bytes || bytes > region_bytes - request->offset)
        return completion;
    uint8_t *remote = region + request->offset;
    switch (request->verb) {
    case DM_READ:
        if (!fits)
            return completion;
        copy(scratch + local, remote, bytes);
        break;
    case DM_WRITE:
        if (request->flags & DM_INLINE) {
            if (bytes > sizeof request->operands)
                return completion;
            copy(remote, (const uint8_t *)operands, bytes);
        } else {
            if (!fits)
                return completion;
            copy(remote, scratch + local, bytes);
        }
        break;
    case DM_CAS:
    case DM_MASKED_CAS:
    case DM_FETCH_ADD:
        if (bytes != 8 || request->offset % 8 != 0)
            return completion;
        completion.value = load(remote);
        if (request->verb == DM_FETCH_ADD)
            store(remote, completion.value + operands[0]);
        else if (request->verb == DM_CAS && completion.value == operands[0])
            store(remote, operands[1]);
        else if (request->verb == DM_MASKED_CAS && ((completion.value ^ operands[0]) & operands[2]) == 0)
            store(remote, (completion.value & ~operands[3]) | (operands[1] & operands[3]));
        break;
    default:
        return completion;
    }
    completion.status = DM_OK;
    return completion;
}

/* Calls that a driver must not make, before and after the submit that it has begun: they are refused, and do no harm.
 * Returns how many were answered otherwise. */
static uint32_t misuse(struct dm_lanes *lanes, uint32_t at, uint32_t requests, int is_begun) {
    const struct dm_completion completion = {.value = UINT64_MAX, .status = DM_FLUSHED};
    uint32_t bytes, wrong = 0;
    wrong += dm_complete(lanes, at, requests, &completion) != (is_begun ? DM_NOT_POSTED : DM_NOT_IN_FLIGHT);
    wrong += dm_complete(lanes, LANES_MAX, 0, &completion) != DM_NO_LANE;
    if (is_begun) {
        wrong += dm_begin(lanes, at, &bytes) != 0;
    } else {
        wrong += dm_complete(lanes, at, 0, &completion) != DM_NOT_IN_FLIGHT;
        wrong += dm_finish(lanes, at, 0) != DM_NOT_IN_FLIGHT;
    }
    return wrong;
}

/* Does what a lane asked for. */
static void submit(struct dm_lanes *lanes, struct lane *all, uint32_t count, uint32_t at, uint8_t *region,
                   uint32_t region_bytes, struct dm_counts *counts) {
    struct lane *lane = &all[at];
    uint32_t requests = 0, travelling = 0, scratch_bytes = 0;
    const struct dm_request *request = dm_requests(lanes, at, &requests);
    lane->since_ns = dm_clock_ns();
    for (uint32_t position = 0; position < requests; position++) {
        const uint64_t operand = request[position].operands[0];
        switch (request[position].verb) {
        case DM_WAKE:
            if (operand < count)
                all[operand].woken = 1;
            break;
        case DM_PAUSE:
        case DM_PARK:
            lane->wait = request[position].verb == DM_PAUSE ? PAUSED : PARKED;
            lane->wait_ns = operand;
            break;
        default:
            travelling++;
        }
    }
    if (travelling == 0 && lane->wait != TURN) {
        counts->waits++;
        return;
    }
    lane->wait = TURN;
    counts->requests += travelling;
    counts->round_trips += travelling > 0;
    counts->misuses += misuse(lanes, at, requests, 0);
    uint8_t *scratch = dm_begin(lanes, at, &scratch_bytes);
    if (!scratch)
        return;
    counts->misuses += misuse(lanes, at, requests, 1);
    for (uint32_t position = 0; position < requests; position++) {
        if (request[position].verb >= DM_PAUSE)
            continue;
        const struct dm_completion completion = execute(&request[position], scratch, scratch_bytes, region, region_bytes);
        counts->misuses += dm_complete(lanes, at, position, &completion) != DM_NO_MISUSE;
        const struct dm_completion again = {.value = ~completion.value, .status = DM_FLUSHED};
        counts->misuses += dm_complete(lanes, at, position, &again) != DM_COMPLETED_TWICE;
    }
    counts->misuses += dm_finish(lanes, at, dm_clock_ns() - lane->since_ns) != DM_NO_MISUSE;
    counts->misuses += misuse(lanes, at, requests, 0);
}

/* Whether a lane may be polled. If it paused or parked, this ends its submit. */
static int is_over(struct dm_lanes *lanes, struct lane *lane, uint32_t at, struct dm_counts *counts) {
    uint32_t scratch_bytes;
    if (lane->wait == TURN)
        return 1;
    const uint64_t waited_ns = dm_clock_ns() - lane->since_ns;
    const int woken = lane->wait == PARKED && lane->woken;
    if (!woken && waited_ns < lane->wait_ns)
        return 0;
    if (woken)
        lane->woken = 0;
    lane->wait = TURN;
    if (dm_begin(lanes, at, &scratch_bytes))
        counts->misuses += dm_finish(lanes, at, waited_ns) != DM_NO_MISUSE;
    return 1;
}

void dm_drive(struct dm_lanes *lanes, uint32_t count, uint8_t *region, uint32_t region_bytes, struct dm_counts *counts) {
    struct lane all[LANES_MAX];
    if (count > LANES_MAX)
        return;
    for (uint32_t at = 0; at < count; at++)
        all[at] = (struct lane){.wait = TURN};
    for (uint32_t open = count; open > 0;) {
        for (uint32_t at = 0; at < count; at++) {
            if (all[at].wait == ENDED || !is_over(lanes, &all[at], at, counts))
                continue;
            switch (dm_poll(lanes, at)) {
            case DM_REQUESTS:
                submit(lanes, all, count, at, region, region_bytes, counts);
                break;
            case DM_ENDED:
                all[at].wait = ENDED;
                open--;
                break;
            }
        }
    }
}
