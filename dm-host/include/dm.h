// Range indexes on disaggregated memory, for C: link libdm.so or libdm.a.
//
// Made by cbindgen of dm-host/src/c; do not edit. dm-host/examples/c/embed.c is a program that uses it.
//
// What holds for every function, unless it says otherwise:
//
// - Status. 0 is done; a positive status is an answer, such as DM_ABSENT; a negative one is a failure. dm_status_text
//   says what a status means, and `error`, which may be NULL, what failed in this call.
// - Ownership. What a function makes is the caller's, who frees it with the function named for it: dm_pool_free,
//   dm_session_free, dm_scan_free, dm_queue_free, in any order. What the caller passes stays the caller's, and is not
//   needed after the call: keys, values, texts and structs are read during the call or copied.
// - Pointers. NULL where it has no meaning fails with DM_INVALID_ARGUMENT. Any other pointer must be what its type says,
//   and stay so during the call: as many bytes as a length says, texts that end with NUL, structs whose members are all
//   set (begin with {0}), objects of this library that were not freed. An object that was closed is still an object: its
//   functions fail with DM_CLOSED.
// - Threads. Any number of threads may use a pool, a session, or submit to a queue. One thread at a time may use a scan,
//   or poll a queue. Freeing an object must be the last use of it. No function may be called in a signal handler, nor
//   by a child process on what its parent made before fork.
// - Time. `timeout_us` is the time for an operation in microseconds; 0: none is given, and an operation gives up by
//   itself 20 s after it was started. An operation that failed for its time tells in dm_error.effect what it did.


#ifndef DM_H
#define DM_H

#include <stddef.h>
#include <stdint.h>


// Bytes of dm_error.text.
#define DM_ERROR_TEXT_BYTES 248

// In dm_parameters.flags: keys and values have any length up to those in key_bytes and value_bytes.
#define DM_ANY_LENGTH 1

// In dm_parameters.flags: the index stores a checksum with each record, and compares it whenever the record is read. A record that
// has changed in the pool is DM_CORRUPT. Values are 4 bytes shorter at most.
#define DM_CHECKSUMS 2

// In dm_session_options.flags: a waiting thread sleeps at once, where it would spin for some microseconds first.
#define DM_NO_SPIN 1

// In dm_session_options.flags: others cannot recover the locks of this session when its process dies. Saves memory
// and requests.
#define DM_NO_RECOVERY 2

// In dm_bound.kind: there is no bound on this side, and the key is ignored.
#define DM_UNBOUNDED 0

// In dm_bound.kind: the key is in the range.
#define DM_INCLUDED 1

// In dm_bound.kind: the key is just outside the range.
#define DM_EXCLUDED 2

// In dm_request.operation: as dm_get.
#define DM_GET 1

// In dm_request.operation: as dm_insert.
#define DM_INSERT 2

// In dm_request.operation: as dm_update.
#define DM_UPDATE 3

// In dm_request.operation: as dm_upsert.
#define DM_UPSERT 4

// In dm_request.operation: as dm_update_if.
#define DM_UPDATE_IF 5

// In dm_request.operation: as dm_delete.
#define DM_DELETE 6

// In dm_request.operation: as dm_delete_if.
#define DM_DELETE_IF 7

// How a call ended. 0: done. Positive: carried out, and this is the answer. Negative: failed; see dm_error.
typedef enum {
    // Done.
    DM_OK = 0,
    // The key is absent.
    DM_ABSENT = 1,
    // Insert: the key is present, and keeps its value.
    DM_EXISTS = 2,
    // Conditional update or delete: the value is not the expected one, and stays.
    DM_MISMATCH = 3,
    // Scan: there are no more records.
    DM_END = 4,
    // An argument is NULL, unknown, or out of range.
    DM_INVALID_ARGUMENT = -1,
    // Keys of this index have another length.
    DM_KEY_LENGTH = -2,
    // Values of this index have another length.
    DM_VALUE_LENGTH = -3,
    // The value is longer than the buffer, which tells its length; nothing was copied.
    DM_BUFFER_TOO_SMALL = -4,
    // The session was closed.
    DM_CLOSED = -5,
    // The time that the caller gave has passed.
    DM_TIMED_OUT = -6,
    // As many operations are in the queue as it takes: poll it first.
    DM_QUEUE_FULL = -7,
    // A memory node cannot be reached.
    DM_CANNOT_CONNECT = -8,
    // The memory nodes are no pool that this program can use.
    DM_BAD_POOL = -9,
    // The pool has no index of that name.
    DM_NO_INDEX = -10,
    // The index exists, with another kind or other lengths than asked for.
    DM_OTHER_INDEX = -11,
    // The index cannot be opened with these options in this process.
    DM_CANNOT_OPEN = -12,
    // The pool has no memory, no row for a compute node, or no catalog entry left.
    DM_POOL_FULL = -13,
    // A memory node does not answer any more.
    DM_NODE_DOWN = -14,
    // A request to a memory node failed.
    DM_FABRIC = -15,
    // Others have excluded this session from the pool: close it, and open another one.
    DM_FENCED = -16,
    // A lock's holder seems dead, and cannot be excluded.
    DM_CANNOT_FENCE = -17,
    // The session's workers have stopped: close it, and open another one.
    DM_BROKEN = -18,
    // The operation met other writers too often and gave up.
    DM_RETRIES = -19,
    // The operation that this one was combined with was lost.
    DM_LOST = -20,
    // The memory of a memory node has bytes that this program does not write.
    DM_CORRUPT = -21,
    // The operating system refused a thread or a file descriptor.
    DM_SYSTEM = -22,
    // A bug in this library.
    DM_INTERNAL = -23,
} dm_status;

// What a failed operation did to the index nevertheless.
typedef enum {
    // Nothing, now and later.
    DM_EFFECT_NONE = 0,
    // The change may have been made, or may be made soon.
    DM_EFFECT_UNKNOWN = 1,
    // The change was made.
    DM_EFFECT_DONE = 2,
} dm_effect;

// A pool that this process is connected to. Any number of threads may use it.
typedef struct dm_pool dm_pool;

// Operations without a waiting thread, and their completions. Any number of threads may submit; one thread at a time
// may poll.
typedef struct dm_queue dm_queue;

// A cursor over the records of a range, in ascending order. One thread at a time may use it.
//
// Each record is reported at most once, and was current at some instant of the scan. No record is left out that was
// there throughout the scan. The scan is not a snapshot.
typedef struct dm_scan dm_scan;

// An open index: worker threads that run operations on it, and a row in the pool, whose lease they keep. Any number of
// threads may use it.
typedef struct dm_session dm_session;

// Bytes that a call reads. As an argument they are the caller's and must not change during the call; the library keeps
// no pointer to them. As a result they are the library's, and the function says how long. The pointer may be NULL if
// the length is 0.
typedef struct {
    // The first of them.
    const void *data;
    // How many.
    size_t length;
} dm_bytes;

// Why a call failed. The caller provides it, and may pass NULL instead. Every call that is given one overwrites it,
// also when it succeeds: then the effect is DM_EFFECT_NONE and the text is empty.
typedef struct {
    // The status that the call returned.
    dm_status status;
    // If it is negative: what the operation did nevertheless.
    dm_effect effect;
    // If it is negative: what failed, where and why. Ends with NUL; cut where it is too long.
    char text[DM_ERROR_TEXT_BYTES];
} dm_error;

// How a session works. A member that is 0 has its default, so begin with dm_session_options options = {0};
typedef struct {
    // DM_NO_SPIN, DM_NO_RECOVERY, both (or-ed), or 0.
    uint32_t flags;
    // Worker threads, 1 to 1024; by default 1.
    uint32_t workers;
    // Operations that a worker has in flight, 1 to 1024; by default 8.
    uint32_t lanes_per_worker;
    // Operations that may be queued for a worker, 1 to 65536; by default 256.
    uint32_t queue_slots;
    // Records that a scan fetches at a time; by default 128.
    uint32_t page_records;
    // How long the process may be unresponsive before others exclude it; by default 2 s, in a virtual machine 10 s.
    uint32_t lease_ms;
    // Memory for copies of inner nodes; by default 64 MiB.
    uint64_t cache_bytes;
    // CHIME: memory for the places of popular keys; by default none.
    uint64_t hotspot_bytes;
} dm_session_options;

// What is fixed when an index is created.
typedef struct {
    // "sherman", "chime" or "smart".
    const char *kind;
    // DM_ANY_LENGTH, or without it all keys, and all values, have one length; DM_CHECKSUMS.
    uint32_t flags;
    // Bytes of every key, 8 to 64; with DM_ANY_LENGTH of the longest, 1 to 4096.
    uint64_t key_bytes;
    // Bytes of every value, 8 to 1024; with DM_ANY_LENGTH of the longest, 0 to 65536.
    uint64_t value_bytes;
} dm_parameters;

// What is known of a session.
typedef struct {
    // DM_ANY_LENGTH or 0.
    uint32_t flags;
    // Its row in the pool.
    uint32_t row;
    // The row's incarnation: how often it was used.
    uint32_t incarnation;
    // Records that a scan fetches at a time.
    uint32_t page_records;
    // Bytes of every key; with DM_ANY_LENGTH of the longest.
    uint64_t key_bytes;
    // Bytes of every value; with DM_ANY_LENGTH of the longest.
    uint64_t value_bytes;
} dm_session_info;

// Room of the caller for a value.
typedef struct {
    // Where the value goes; the caller's. May be NULL if the capacity is 0.
    void *data;
    // Bytes there.
    size_t capacity;
    // Set by the call: length of the value, 0 if there is none. If it is above the capacity, nothing was copied.
    size_t length;
} dm_buffer;

// One end of a range. All zero: no bound.
typedef struct {
    // DM_UNBOUNDED, DM_INCLUDED or DM_EXCLUDED.
    uint32_t kind;
    // The key.
    dm_bytes key;
} dm_bound;

// An operation to submit. Members that the operation does not use are ignored.
typedef struct {
    // DM_GET to DM_DELETE_IF.
    uint32_t operation;
    // Comes back in the completion; the caller's to choose.
    uint64_t tag;
    // The key.
    dm_bytes key;
    // The value to write.
    dm_bytes value;
    // The value that DM_UPDATE_IF and DM_DELETE_IF expect.
    dm_bytes expected;
    // Time for the operation from its submit on, in microseconds; 0: no bound.
    uint64_t timeout_us;
} dm_request;

// An operation that has ended.
typedef struct {
    // The tag of its request.
    uint64_t tag;
    // What the blocking call would have returned.
    dm_status status;
    // If the status is negative: what the operation did nevertheless.
    dm_effect effect;
    // The value that was found, with DM_OK of DM_GET, with DM_EXISTS and with DM_MISMATCH; otherwise no bytes. It is
    // the queue's, until the next dm_queue_poll.
    dm_bytes value;
    // If the status is negative: what failed, where and why; otherwise empty. It is the queue's, until the next
    // dm_queue_poll.
    const char *text;
} dm_completion;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// One line of text for a status, or for a number that is none. It is a constant of the library: never free it.
const char *dm_status_text(int32_t status);

// The version of the library. It is a constant of the library: never free it.
const char *dm_version(void);

// Writes the string into all `slot_bytes` bytes of `slot`, as a key of an index whose keys have that length. Slots
// compare as their strings do, which have at most `slot_bytes - 1` bytes, and at most 255.
dm_status dm_string_pack(dm_bytes string, void *slot, size_t slot_bytes, dm_error *error);

// Sets `string` to the string in a slot that dm_string_pack wrote. It points into the slot.
dm_status dm_string_unpack(dm_bytes slot, dm_bytes *string, dm_error *error);

// Connects to the memory nodes of a pool on this machine, whose daemons (dm-memd) have the control sockets
// `sockets[0]` to `sockets[count - 1]`, in any order. On success `*pool` is the caller's, who frees it with
// dm_pool_free; otherwise it is NULL. The texts are the caller's, and are not needed after the call.
dm_status dm_pool_connect(const char *const *sockets, size_t count, dm_pool **pool, dm_error *error);

// Frees a pool. Its sessions stay open: the connections end with the last of them. NULL is ignored.
void dm_pool_free(dm_pool *pool);

// Opens the index called `name`, which must exist. `options` may be NULL. On success `*session` is the caller's, who
// frees it with dm_session_free; otherwise it is NULL. The session keeps the pool connected.
dm_status dm_session_open(dm_pool *pool,
                          const char *name,
                          const dm_session_options *options,
                          dm_session **session,
                          dm_error *error);

// As dm_session_open, and creates the index if it does not exist. If it does, and is of another kind or has other
// lengths, the call fails with DM_OTHER_INDEX.
dm_status dm_session_open_or_create(dm_pool *pool,
                                    const char *name,
                                    const dm_parameters *parameters,
                                    const dm_session_options *options,
                                    dm_session **session,
                                    dm_error *error);

// Fills in what is known of a session.
dm_status dm_session_describe(dm_session *session, dm_session_info *info, dm_error *error);

// Refuses new operations, finishes what is queued, and leaves the pool. From then on every operation of the session,
// its scans and its queues fails with DM_CLOSED; a scan reports what it has fetched before. Other threads may be in
// calls of the session. The session has yet to be freed.
dm_status dm_session_close(dm_session *session, dm_error *error);

// Closes a session and frees it; no other thread may be in a call of it. Its scans and queues may be freed before or
// after it. NULL is ignored.
void dm_session_free(dm_session *session);

// Copies the value of a key into `found`. DM_OK; DM_ABSENT; or DM_BUFFER_TOO_SMALL, where found->length tells the room
// it takes. `found` may be NULL, to learn only whether the key is there.
dm_status dm_get(dm_session *session, dm_bytes key, dm_buffer *found, uint64_t timeout_us, dm_error *error);

// Adds a record if its key is absent. DM_OK; or DM_EXISTS, and then the present value is copied into `found`, unless
// that is NULL or too small.
dm_status dm_insert(dm_session *session,
                    dm_bytes key,
                    dm_bytes value,
                    dm_buffer *found,
                    uint64_t timeout_us,
                    dm_error *error);

// Replaces the value of a key that is present. DM_OK or DM_ABSENT.
dm_status dm_update(dm_session *session, dm_bytes key, dm_bytes value, uint64_t timeout_us, dm_error *error);

// Adds a record, or replaces its value. DM_OK in both cases.
dm_status dm_upsert(dm_session *session, dm_bytes key, dm_bytes value, uint64_t timeout_us, dm_error *error);

// Replaces the value of a key if it is `expected`. DM_OK; DM_ABSENT; or DM_MISMATCH, and then the present value is
// copied into `found`, unless that is NULL or too small.
dm_status dm_update_if(dm_session *session,
                       dm_bytes key,
                       dm_bytes expected,
                       dm_bytes value,
                       dm_buffer *found,
                       uint64_t timeout_us,
                       dm_error *error);

// Removes a key. DM_OK or DM_ABSENT.
dm_status dm_delete(dm_session *session, dm_bytes key, uint64_t timeout_us, dm_error *error);

// Removes a key if its value is `expected`. DM_OK; DM_ABSENT; or DM_MISMATCH, and then the present value is copied
// into `found`, unless that is NULL or too small.
dm_status dm_delete_if(dm_session *session,
                       dm_bytes key,
                       dm_bytes expected,
                       dm_buffer *found,
                       uint64_t timeout_us,
                       dm_error *error);

// Begins a scan of the records between `low` and `high`; either may be NULL: no bound. Nothing is fetched yet. The
// bounds are copied. On success `*scan` is the caller's, who frees it with dm_scan_free; otherwise it is NULL.
dm_status dm_scan_open(dm_session *session, const dm_bound *low, const dm_bound *high, dm_scan **scan, dm_error *error);

// Moves to the next record. DM_OK, and `key` and `value` are set, unless they are NULL; or DM_END. The bytes they
// point to are the scan's, until its next call. If it fails, the next call goes on where this one was.
dm_status dm_scan_next(dm_scan *scan, dm_bytes *key, dm_bytes *value, uint64_t timeout_us, dm_error *error);

// Frees a scan, at any time. NULL is ignored.
void dm_scan_free(dm_scan *scan);

// Makes a queue for up to `capacity` operations of a session, submitted and not yet polled; 1 to 1048576. On success
// `*queue` is the caller's, who frees it with dm_queue_free; otherwise it is NULL.
dm_status dm_queue_open(dm_session *session, size_t capacity, dm_queue **queue, dm_error *error);

// A descriptor that is readable when a poll of the queue may find completions: for poll, select and epoll. It is the
// queue's: neither read, write nor close it. -1: `queue` is NULL.
int dm_queue_fd(dm_queue *queue);

// Submits an operation. DM_OK: it will be completed once, by a dm_queue_poll. Otherwise it was not submitted, and has
// no completion: the queue is full, an argument has a wrong length, or the session is closed. The request and its
// bytes are copied.
//
// If the session has no slot free (dm_session_options.queue_slots), the operation waits for one, and a later
// dm_queue_poll starts it: so poll whenever the descriptor is readable. The timeout of such an operation is looked at
// only then.
dm_status dm_submit(dm_queue *queue, const dm_request *request, dm_error *error);

// Writes up to `capacity` completions, in the order in which operations ended, and their number to `*count`, which may
// be 0. Does not wait. What the completions of the poll before point to is freed.
dm_status dm_queue_poll(dm_queue *queue, dm_completion *completions, size_t capacity, size_t *count, dm_error *error);

// Operations that were submitted and whose completions were not polled; 0 if `queue` is NULL.
size_t dm_queue_pending(dm_queue *queue);

// Frees a queue; no other thread may be in a call of it. Operations that were submitted run on, and have no
// completion. NULL is ignored.
void dm_queue_free(dm_queue *queue);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* DM_H */
