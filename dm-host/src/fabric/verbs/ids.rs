//! Ids of work requests: what a completion is of.

/// Bits of a request's number in a work request's id.
const NUMBER_BITS: u32 = 39;

/// Where the epoch is in a work request's id; the memory node is above.
const EPOCH_SHIFT: u32 = NUMBER_BITS + 1;

/// Tells the id of a receive from that of a request.
const RECEIVE: u64 = 1 << NUMBER_BITS;

/// A work request's id names the memory node, the epoch of the queue pair, and the request's number.
#[inline]
pub(super) fn work_id(node: usize, epoch: u8, number: u64) -> u64 {
    (node as u64) << 48 | u64::from(epoch) << EPOCH_SHIFT | number & ((1 << NUMBER_BITS) - 1)
}

/// The id of a receive names the number of its buffer instead.
#[inline]
pub(super) fn receive_id(node: usize, epoch: u8, buffer: usize) -> u64 {
    work_id(node, epoch, buffer as u64) | RECEIVE
}

/// Whether an id is that of a receive.
#[inline]
pub(super) fn is_receive(id: u64) -> bool {
    id & RECEIVE != 0
}

/// Memory node, epoch, and the low bits of the number.
#[inline]
pub(super) fn parts_of(id: u64) -> (usize, u8, u64) {
    ((id >> 48) as usize, (id >> EPOCH_SHIFT) as u8, id & ((1 << NUMBER_BITS) - 1))
}

/// The number with these low bits that is not before `oldest`.
#[inline]
pub(super) fn whole_number(oldest: u64, low: u64) -> u64 {
    const MASK: u64 = (1 << NUMBER_BITS) - 1;
    oldest + (low.wrapping_sub(oldest) & MASK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_request_is_found_by_its_id_even_when_numbers_wrap() {
        let limit = 1u64 << NUMBER_BITS;
        for (node, epoch, number, oldest) in
            [(0, 0, 0, 0), (65_535, 255, limit - 1, limit - 3), (3, 7, limit + 5, limit - 2)]
        {
            let (n, e, low) = parts_of(work_id(node, epoch, number));
            assert_eq!((n, e, whole_number(oldest, low)), (node, epoch, number));
            let (id, received) = (work_id(node, epoch, number), receive_id(node, epoch, 63));
            assert!(!is_receive(id) && is_receive(received));
            assert_eq!(parts_of(received), (node, epoch, 63));
        }
    }
}
