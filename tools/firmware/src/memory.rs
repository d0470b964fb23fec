//! The memory node: a static array, and what executes requests on it.

use dm_core::port::OUTBOX_REQUESTS;
use dm_core::verbs::{
    CALL_BYTES_MAX, CallAnswer, Capabilities, Completion, Flags, INLINE_BYTES_MAX, Request, Space, Status, Verb,
};
use spin::{Mutex, MutexGuard, Once};

/// Bytes of the region.
pub const REGION_BYTES: usize = 1 << 20;

/// The region. Its lines begin at multiples of their size, as in registered memory.
#[repr(C, align(64))]
pub struct Region(pub [u8; REGION_BYTES]);

// SAFETY: `link/sections.ld` places this section in RAM, aligned, and `boot` fills it with zeroes.
#[unsafe(link_section = ".bss.pool")]
static REGION: Mutex<Region> = Mutex::new(Region([0; REGION_BYTES]));

/// Answers a call: with the region, and with a message that has so many bytes of the request, and gets the answer. Returns the
/// answer's length.
pub type Serve = fn(region: &mut [u8], message: &mut [u8], request_bytes: usize) -> usize;

static SERVE: Once<Serve> = Once::new();

/// Has calls answered: by this processor, since an emulated board has no other.
pub fn answer_calls(serve: Serve) {
    SERVE.call_once(|| serve);
}

/// Whether calls are answered.
pub fn answers_calls() -> bool {
    SERVE.get().is_some()
}

/// The region, which only one caller gets.
pub fn region() -> &'static mut Region {
    MutexGuard::leak(REGION.lock())
}

/// What this fabric offers. One lane's requests execute at a time, in post order.
pub const CAPABILITIES: Capabilities = Capabilities {
    masked_atomics: true,
    device_bytes: 0,
    inline_bytes_max: INLINE_BYTES_MAX as u32,
    outstanding_reads_max: OUTBOX_REQUESTS as u16,
    chain_requests_max: OUTBOX_REQUESTS as u16,
    fencing: false,
    crash_atomic_bytes: 8,
    write_turn_ns_min: 0,
    // Indexes of other kinds make none.
    call_bytes_max: CALL_BYTES_MAX as u32,
    calls_change: true,
};

impl Region {
    /// Executes a request; one for the driver does nothing here.
    pub fn execute(&mut self, request: &Request, scratch: &mut [u8]) -> Completion {
        let refused = |status| Completion { status, ..Completion::default() };
        if request.verb.is_local() {
            return Completion::default();
        }
        if request.space != Space::Host || request.node.0 != 0 {
            return refused(Status::Unsupported);
        }
        if request.verb == Verb::Call {
            return self.call(request, scratch).unwrap_or(refused(Status::Unsupported));
        }
        let (bytes, local) = (request.bytes as usize, request.local as usize);
        let remote = usize::try_from(request.offset).ok();
        let remote = remote.and_then(|offset| self.0.get_mut(offset..offset.checked_add(bytes)?));
        let near = local.checked_add(bytes).and_then(|end| scratch.get_mut(local..end));
        match (request.verb, remote, near) {
            (Verb::Read, Some(remote), Some(near)) => near.copy_from_slice(remote),
            (Verb::Write, Some(remote), _) if request.flags.contains(Flags::INLINE) => {
                match request.inline_payload().get(..bytes) {
                    Some(payload) => remote.copy_from_slice(payload),
                    None => return refused(Status::Refused),
                }
            }
            (Verb::Write, Some(remote), Some(near)) => remote.copy_from_slice(near),
            (Verb::Cas | Verb::MaskedCas | Verb::FetchAdd, Some(remote), _) if request.offset.is_multiple_of(8) => {
                let Ok(word) = <&mut [u8; 8]>::try_from(remote) else { return refused(Status::Refused) };
                let value = u64::from_le_bytes(*word);
                *word = swapped(request, value).to_le_bytes();
                return Completion { value, ..Completion::default() };
            }
            (Verb::Rpc, ..) => return refused(Status::Unsupported),
            _ => return refused(Status::Refused),
        }
        Completion::default()
    }

    fn call(&mut self, request: &Request, scratch: &mut [u8]) -> Option<Completion> {
        let (serve, local) = (SERVE.get()?, request.local as usize);
        let room = usize::try_from(request.operands[0]).ok()?.max(request.bytes as usize);
        let message = scratch.get_mut(local..local.checked_add(room)?)?;
        let bytes = serve(&mut self.0, message, request.bytes as usize);
        Some(Completion { value: CallAnswer::new(bytes, 0, 0).0, ..Completion::default() })
    }
}

/// What an atomic makes of a word.
fn swapped(request: &Request, value: u64) -> u64 {
    let [first, swap, compare_mask, swap_mask] = request.operands;
    match request.verb {
        Verb::Cas if value == first => swap,
        Verb::MaskedCas if (value ^ first) & compare_mask == 0 => value & !swap_mask | swap & swap_mask,
        Verb::FetchAdd => value.wrapping_add(first),
        _ => value,
    }
}
