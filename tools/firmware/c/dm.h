/* What a driver in C sees of the core: the requests of lanes, and where their completions go. `src/c_face.rs` is the other
 * side. No libc. */
#ifndef DM_H
#define DM_H

#include <stdint.h>

enum dm_verb {
    DM_READ = 1,
    DM_WRITE = 2,
    DM_CAS = 3,
    DM_MASKED_CAS = 4,
    DM_FETCH_ADD = 5,
    DM_RPC = 6,
    /* The rest is for the driver itself. */
    DM_PAUSE = 7,
    DM_PARK = 8,
    DM_WAKE = 9
};

enum { DM_SIGNALED = 1, DM_INLINE = 2, DM_FENCE = 4, DM_UNTIMED = 8 };

enum dm_status { DM_OK = 0, DM_REFUSED = 1, DM_FLUSHED = 2, DM_NODE_DOWN = 3, DM_FENCED = 4, DM_UNSUPPORTED = 5,
                 DM_UNANSWERED = 6, DM_NOT_SERVED = 7 };

/* One verb request. */
struct dm_request {
    uint8_t verb;
    uint8_t label;
    uint8_t flags;
    uint8_t space;
    uint16_t node;
    uint16_t reserved;
    uint64_t offset;
    uint32_t local;
    uint32_t bytes;
    uint64_t operands[4];
};
_Static_assert(sizeof(struct dm_request) == 56, "as in the core");

/* What came back for it. */
struct dm_completion {
    uint64_t value;
    uint32_t elapsed_ns;
    uint8_t status;
};
_Static_assert(sizeof(struct dm_completion) == 16, "as in the core");

/* What was wrong with a call. Such a call has no effect, but for DM_DROPPED: the submit ends, and the request counts as
 * DM_FLUSHED. */
enum dm_misuse {
    DM_NO_MISUSE = 0,
    /* The driver has no submit of this lane: before dm_begin, or after dm_finish. */
    DM_NOT_IN_FLIGHT = 1,
    /* The submit has no request at this position. */
    DM_NOT_POSTED = 2,
    /* The request was completed before; the first completion counts. */
    DM_COMPLETED_TWICE = 3,
    /* The submit ended, and a signaled request was not completed. */
    DM_DROPPED = 4,
    /* There is no such lane. */
    DM_NO_LANE = 5,
    /* One that this header does not know. */
    DM_OTHER_MISUSE = 6
};

enum dm_step {
    /* Requests are to be executed. */
    DM_REQUESTS = 0,
    /* Poll again, after other lanes. */
    DM_WAITING = 1,
    /* The lane has ended. Do not poll it again. */
    DM_ENDED = 2
};

/* Lanes that are being driven. They belong to the core. */
struct dm_lanes;

/* Runs a lane to its next round trip. */
uint32_t dm_poll(struct dm_lanes *lanes, uint32_t lane);

/* The requests of a lane whose poll said DM_REQUESTS. They are valid until dm_finish. */
const struct dm_request *dm_requests(const struct dm_lanes *lanes, uint32_t lane, uint32_t *count);

/* Takes the lane's scratch, until dm_finish. A null pointer: it asked for nothing. */
uint8_t *dm_begin(struct dm_lanes *lanes, uint32_t lane, uint32_t *bytes);

/* Delivers the completion of the request at `position`; in any order. An enum dm_misuse. */
uint32_t dm_complete(struct dm_lanes *lanes, uint32_t lane, uint32_t position, const struct dm_completion *completion);

/* Gives the scratch back, when all completions are delivered. `elapsed_ns`: how long the submit took. An enum
 * dm_misuse. */
uint32_t dm_finish(struct dm_lanes *lanes, uint32_t lane, uint64_t elapsed_ns);

/* Nanoseconds, from the board. */
uint64_t dm_clock_ns(void);

/* What a driver did. */
struct dm_counts {
    uint32_t round_trips;
    uint32_t requests;
    uint32_t waits;
    /* Calls that ended with another misuse than they should. */
    uint32_t misuses;
};

/* The driver's own function: drives all lanes to their ends. The memory node is an array. */
void dm_drive(struct dm_lanes *lanes, uint32_t count, uint8_t *region, uint32_t region_bytes, struct dm_counts *counts);

#endif
