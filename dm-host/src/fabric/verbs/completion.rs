//! What the status of a completion means to a lane.

use dm_core::verbs::Status;
use rdma_sys::ibv_wc_status as wc;

/// The status of a request that completed with `status`, and whether to log it: a request that the device refused on
/// this side is a bug in this program.
pub(super) fn status_of(status: wc::Type) -> (Status, bool) {
    match status {
        wc::IBV_WC_SUCCESS => (Status::Ok, false),
        // The responder checked the request and refused it.
        wc::IBV_WC_REM_ACCESS_ERR | wc::IBV_WC_REM_INV_REQ_ERR => (Status::Refused, false),
        // The request never left this machine.
        wc::IBV_WC_LOC_LEN_ERR | wc::IBV_WC_LOC_QP_OP_ERR | wc::IBV_WC_LOC_PROT_ERR | wc::IBV_WC_LOC_ACCESS_ERR => {
            (Status::Refused, true)
        }
        // The request was flushed, gave up after all repetitions, or failed on the way. It may have taken effect, or
        // may still, until the responder's queue pair is closed.
        _ => (Status::Flushed, false),
    }
}

/// The name libibverbs has for a status.
pub(super) fn name(status: wc::Type) -> String {
    // SAFETY: the function answers with a constant text for any number.
    let text = unsafe { std::ffi::CStr::from_ptr(rdma_sys::ibv_wc_status_str(status)) };
    text.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_is_typed() {
        for status in 0..=30 {
            let (typed, _) = status_of(status);
            assert_eq!(typed == Status::Ok, status == wc::IBV_WC_SUCCESS);
        }
        assert_eq!(status_of(wc::IBV_WC_REM_ACCESS_ERR).0, Status::Refused);
        assert_eq!(status_of(wc::IBV_WC_RETRY_EXC_ERR).0, Status::Flushed);
        assert_eq!(status_of(wc::IBV_WC_WR_FLUSH_ERR).0, Status::Flushed);
    }
}
