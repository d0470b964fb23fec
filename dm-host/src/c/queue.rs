//! Operations without a waiting thread.
//!
//! ```text
//!  caller                        queue                                 worker thread
//!  dm_submit ──► a future, polled once: the operation is queued ──────► runs it
//!                                bell: number of the operation ◄─────── wakes the future's waker
//!  poll(fd) ◄─── eventfd ◄──────────┘
//!  dm_queue_poll ──► polls the futures that the bell names ──► completions
//! ```
//!
//! The waker has the bell and a number, and not the future: so nothing that a worker holds leads back to the session.
//!
//! **No completion is lost:** whenever a number is in the bell, the descriptor is readable, or a thread is about to
//! make it so or to take the number. A waker that finds the bell empty writes the eventfd after it put its number
//! there. A poll reads the eventfd before it takes numbers; when it stops before the bell is empty, it writes the
//! eventfd again. A submit keeps the lock on the futures until its future is among them, and a poll takes that lock
//! before it looks for a number.

use super::bytes::{dm_bytes, key, value};
use super::calls::{of_delete, of_delete_if, of_get, of_insert, of_update, of_update_if, of_upsert, within};
use super::session::dm_session;
use super::status::{Failure, dm_effect, dm_error, dm_status, guard};
use super::{check_room, object};
use crate::session::Session;
use rustix::event::{EventfdFlags, eventfd};
use static_assertions::assert_impl_all;
use std::collections::{HashMap, VecDeque};
use std::ffi::{CString, c_char, c_int};
use std::fmt;
use std::future::Future;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

assert_impl_all!(dm_queue: Send, Sync);

/// In dm_request.operation: as dm_get.
pub const DM_GET: u32 = 1;
/// In dm_request.operation: as dm_insert.
pub const DM_INSERT: u32 = 2;
/// In dm_request.operation: as dm_update.
pub const DM_UPDATE: u32 = 3;
/// In dm_request.operation: as dm_upsert.
pub const DM_UPSERT: u32 = 4;
/// In dm_request.operation: as dm_update_if.
pub const DM_UPDATE_IF: u32 = 5;
/// In dm_request.operation: as dm_delete.
pub const DM_DELETE: u32 = 6;
/// In dm_request.operation: as dm_delete_if.
pub const DM_DELETE_IF: u32 = 7;

/// An operation to submit. Members that the operation does not use are ignored.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dm_request {
    /// DM_GET to DM_DELETE_IF.
    pub operation: u32,
    /// Comes back in the completion; the caller's to choose.
    pub tag: u64,
    /// The key.
    pub key: dm_bytes,
    /// The value to write.
    pub value: dm_bytes,
    /// The value that DM_UPDATE_IF and DM_DELETE_IF expect.
    pub expected: dm_bytes,
    /// Time for the operation from its submit on, in microseconds; 0: no bound.
    pub timeout_us: u64,
}

/// An operation that has ended.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dm_completion {
    /// The tag of its request.
    pub tag: u64,
    /// What the blocking call would have returned.
    pub status: dm_status,
    /// If the status is negative: what the operation did nevertheless.
    pub effect: dm_effect,
    /// The value that was found, with DM_OK of DM_GET, with DM_EXISTS and with DM_MISMATCH; otherwise no bytes. It is
    /// the queue's, until the next dm_queue_poll.
    pub value: dm_bytes,
    /// If the status is negative: what failed, where and why; otherwise empty. It is the queue's, until the next
    /// dm_queue_poll.
    pub text: *const c_char,
}

type Ended = Result<(dm_status, Vec<u8>), Failure>;

/// A submitted operation.
struct Submitted {
    tag: u64,
    waker: Waker,
    future: Pin<Box<dyn Future<Output = Ended> + Send>>,
}

/// Where wakers say which operations to look at.
struct Bell {
    numbers: Mutex<VecDeque<u64>>,
    event: OwnedFd,
}

impl Bell {
    fn ring(&self) {
        // It fails only if the descriptor's counter is full, and then the descriptor is readable.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    fn silence(&self) {
        // It fails only if the counter is 0.
        let _ = rustix::io::read(&self.event, &mut [0_u8; 8]);
    }
}

/// The waker of one operation.
struct Ringer {
    bell: Arc<Bell>,
    number: u64,
}

impl Wake for Ringer {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut numbers = lock(&self.bell.numbers);
        let was_empty = numbers.is_empty();
        numbers.push_back(self.number);
        drop(numbers);
        if was_empty {
            self.bell.ring();
        }
    }
}

#[derive(Default)]
struct Operations {
    /// By number. No number is used twice.
    submitted: HashMap<u64, Submitted>,
    next: u64,
}

/// Operations without a waiting thread, and their completions. Any number of threads may submit; one thread at a time
/// may poll.
pub struct dm_queue {
    session: Session,
    capacity: usize,
    bell: Arc<Bell>,
    operations: Mutex<Operations>,
    lent: Mutex<Lent>,
}

/// What the completions of the last poll point to. Moving a vector or a text does not move its bytes.
#[derive(Default)]
struct Lent {
    values: Vec<Vec<u8>>,
    texts: Vec<CString>,
}

impl Lent {
    fn clear(&mut self) {
        self.values.clear();
        self.texts.clear();
    }

    fn completion(&mut self, tag: u64, ended: Ended) -> dm_completion {
        let none = dm_completion {
            tag,
            status: dm_status::DM_OK,
            effect: dm_effect::DM_EFFECT_NONE,
            value: dm_bytes::NONE,
            text: c"".as_ptr(),
        };
        match ended {
            Ok((status, value)) => {
                let lent = dm_bytes::of(&value);
                self.values.push(value);
                dm_completion { status, value: lent, ..none }
            }
            Err(Failure { status, effect, text }) => {
                let text = CString::new(text).unwrap_or_default();
                let lent = text.as_ptr();
                self.texts.push(text);
                dm_completion { status, effect, text: lent, ..none }
            }
        }
    }
}

impl fmt::Debug for dm_queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("dm_queue")
            .field("session", &self.session)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

/// A panic under one of these locks leaves whole structures.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The operation's future. It has copies of all arguments and keeps the session.
fn operate(
    session: Session,
    operation: u32,
    [key, value, expected]: [Vec<u8>; 3],
    timeout_us: u64,
) -> Result<Pin<Box<dyn Future<Output = Ended> + Send>>, Failure> {
    macro_rules! future {
        ($call:ident ( $($argument:expr),* ), $outcome:ident) => {
            Box::pin(async move {
                let outcome = within(session.$call($($argument),*), timeout_us).await?;
                Ok($outcome(outcome))
            })
        };
    }
    Ok(match operation {
        DM_GET => future!(get(&key), of_get),
        DM_INSERT => future!(insert(&key, &value), of_insert),
        DM_UPDATE => future!(update(&key, &value), of_update),
        DM_UPSERT => future!(upsert(&key, &value), of_upsert),
        DM_UPDATE_IF => future!(update_if(&key, &expected, &value), of_update_if),
        DM_DELETE => future!(delete(&key), of_delete),
        DM_DELETE_IF => future!(delete_if(&key, &expected), of_delete_if),
        other => return Err(Failure::new(dm_status::DM_INVALID_ARGUMENT, format!("unknown operation {other}"))),
    })
}

impl dm_queue {
    fn submit(&self, request: &dm_request, arguments: [Vec<u8>; 3]) -> Result<(), Failure> {
        let future = operate(self.session.clone(), request.operation, arguments, request.timeout_us)?;
        let mut operations = lock(&self.operations);
        if operations.submitted.len() >= self.capacity {
            let text = format!("{} operations are in the queue: poll it first", self.capacity);
            return Err(Failure::new(dm_status::DM_QUEUE_FULL, text));
        }
        let number = operations.next;
        operations.next += 1;
        let waker = Waker::from(Arc::new(Ringer { bell: Arc::clone(&self.bell), number }));
        let mut submitted = Submitted { tag: request.tag, waker, future };
        // An operation that ends at once was refused: a queued one is never ready at its first poll.
        if let Poll::Ready(ended) = submitted.future.as_mut().poll(&mut Context::from_waker(&submitted.waker)) {
            return ended.map(|_| ());
        }
        operations.submitted.insert(number, submitted);
        Ok(())
    }

    /// The next operation that has ended: its tag and its end.
    fn next(&self) -> Option<(u64, Ended)> {
        loop {
            let number = lock(&self.bell.numbers).pop_front()?;
            let mut operations = lock(&self.operations);
            // An operation may have been woken more than once.
            let Some(submitted) = operations.submitted.get_mut(&number) else { continue };
            let polled = submitted.future.as_mut().poll(&mut Context::from_waker(&submitted.waker));
            if let Poll::Ready(ended) = polled {
                let submitted = operations.submitted.remove(&number);
                drop(operations);
                return submitted.map(|submitted| (submitted.tag, ended));
            }
        }
    }
}

/// Makes a queue for up to `capacity` operations of a session, submitted and not yet polled; 1 to 1048576. On success
/// `*queue` is the caller's, who frees it with dm_queue_free; otherwise it is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dm_queue_open(
    session: *mut dm_session,
    capacity: usize,
    queue: *mut *mut dm_queue,
    error: *mut dm_error,
) -> dm_status {
    const CAPACITY_MAX: usize = 1 << 20;
    let call = || {
        check_room(queue, "queue")?;
        // SAFETY: not NULL, and the caller lets this call write it.
        unsafe { queue.write(std::ptr::null_mut()) };
        // SAFETY: the caller says that it is NULL or a session.
        let session = &unsafe { object(session, "session")? }.session;
        if !(1..=CAPACITY_MAX).contains(&capacity) {
            let text = format!("capacity {capacity}: a queue takes 1 to {CAPACITY_MAX} operations");
            return Err(Failure::new(dm_status::DM_INVALID_ARGUMENT, text));
        }
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Failure::new(dm_status::DM_SYSTEM, format!("eventfd: {error}")))?;
        let made = dm_queue {
            session: session.clone(),
            capacity,
            bell: Arc::new(Bell { numbers: Mutex::default(), event }),
            operations: Mutex::default(),
            lent: Mutex::default(),
        };
        // SAFETY: as before.
        unsafe { queue.write(Box::into_raw(Box::new(made))) };
        Ok(dm_status::DM_OK)
    };
    // SAFETY: the caller says that `error` is NULL or may be written.
    unsafe { guard(error, call) }
}

/// A descriptor that is readable when a poll of the queue may find completions: for poll, select and epoll. It is the
/// queue's: neither read, write nor close it. -1: `queue` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dm_queue_fd(queue: *mut dm_queue) -> c_int {
    // SAFETY: the caller says that it is NULL or a queue.
    unsafe { object(queue, "queue") }.map_or(-1, |queue| queue.bell.event.as_raw_fd())
}

/// Submits an operation. DM_OK: it will be completed once, by a dm_queue_poll. Otherwise it was not submitted, and has
/// no completion: the queue is full, an argument has a wrong length, or the session is closed. The request and its
/// bytes are copied.
///
/// If the session has no slot free (dm_session_options.queue_slots), the operation waits for one, and a later
/// dm_queue_poll starts it: so poll whenever the descriptor is readable. The timeout of such an operation is looked at
/// only then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dm_submit(
    queue: *mut dm_queue,
    request: *const dm_request,
    error: *mut dm_error,
) -> dm_status {
    let call = || {
        // SAFETY: the caller says that it is NULL or a queue.
        let queue = unsafe { object(queue, "queue")? };
        // SAFETY: the caller says that it is NULL or a request. A copy, since a caller's struct may change.
        let request = *unsafe { object(request, "request")? };
        let session = &queue.session;
        // SAFETY: the caller says that the bytes are there.
        let key = unsafe { key(session, request.key)? }.to_vec();
        let mut arguments = [key, Vec::new(), Vec::new()];
        if matches!(request.operation, DM_INSERT | DM_UPDATE | DM_UPSERT | DM_UPDATE_IF) {
            // SAFETY: as before; the operation uses them.
            arguments[1] = unsafe { value(session, request.value)? }.to_vec();
        }
        if matches!(request.operation, DM_UPDATE_IF | DM_DELETE_IF) {
            // SAFETY: as before.
            arguments[2] = unsafe { value(session, request.expected)? }.to_vec();
        }
        queue.submit(&request, arguments)?;
        Ok(dm_status::DM_OK)
    };
    // SAFETY: the caller says that `error` is NULL or may be written.
    unsafe { guard(error, call) }
}

/// Writes up to `capacity` completions, in the order in which operations ended, and their number to `*count`, which may
/// be 0. Does not wait. What the completions of the poll before point to is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dm_queue_poll(
    queue: *mut dm_queue,
    completions: *mut dm_completion,
    capacity: usize,
    count: *mut usize,
    error: *mut dm_error,
) -> dm_status {
    let call = || {
        check_room(count, "count")?;
        // SAFETY: not NULL, and the caller lets this call write it.
        unsafe { count.write(0) };
        // SAFETY: the caller says that it is NULL or a queue.
        let queue = unsafe { object(queue, "queue")? };
        check_room(completions, "completions")?;
        let mut lent = lock(&queue.lent);
        lent.clear();
        queue.bell.silence();
        for position in 0..capacity {
            let Some((tag, ended)) = queue.next() else { return Ok(dm_status::DM_OK) };
            let completion = lent.completion(tag, ended);
            // SAFETY: the caller lets this call write `capacity` completions from there on, and one number.
            unsafe {
                completions.add(position).write(completion);
                count.write(position + 1);
            }
        }
        // There was no room for what else has ended.
        if !lock(&queue.bell.numbers).is_empty() {
            queue.bell.ring();
        }
        Ok(dm_status::DM_OK)
    };
    // SAFETY: the caller says that `error` is NULL or may be written.
    unsafe { guard(error, call) }
}

/// Operations that were submitted and whose completions were not polled; 0 if `queue` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dm_queue_pending(queue: *mut dm_queue) -> usize {
    // SAFETY: the caller says that it is NULL or a queue.
    unsafe { object(queue, "queue") }.map_or(0, |queue| lock(&queue.operations).submitted.len())
}

/// Frees a queue; no other thread may be in a call of it. Operations that were submitted run on, and have no
/// completion. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dm_queue_free(queue: *mut dm_queue) {
    // SAFETY: the caller says that it is NULL, or a queue that nobody uses any more.
    unsafe { super::free(queue) };
}
