//! How a compute process reaches memory nodes.

use super::VerbsError;
use super::profile::Profile;
use super::queue_pair::Patience;
use crate::memory_node::verbs::call_wire::CREDITS_MAX;
use crate::memory_node::verbs::secret::Secret;
use std::net::SocketAddr;
use std::time::Duration;

/// How a compute process reaches memory nodes.
#[derive(Clone, Debug)]
pub struct VerbsOptions {
    /// The secret that this process shares with the memory nodes.
    pub secret: Option<Secret>,
    /// The address of the device to use; `None`: the route decides.
    pub source: Option<SocketAddr>,
    /// The largest packet, in bytes; `None`: what the ports have.
    pub mtu_bytes: Option<u32>,
    /// Timeout and retries of queue pairs; `None`: the profile decides.
    pub patience: Option<Patience>,
    /// Requests in a send queue, at least 16.
    pub queue_requests: u32,
    /// Bytes that a request should be able to carry inline, if the device can.
    pub inline_bytes: u32,
    /// Calls that a queue pair may have under way, if the memory node grants so many, at most 64; 0: none. Each takes 8 KiB of
    /// locked memory.
    pub calls: u32,
    /// How long a memory node's processor may take to answer a call; `None`: the profile decides.
    pub answer_wait: Option<Duration>,
    /// Overrides the measured [`dm_core::verbs::Capabilities::write_turn_ns_min`].
    pub write_turn_ns_min: Option<u32>,
}

impl Default for VerbsOptions {
    fn default() -> Self {
        Self {
            secret: None,
            source: None,
            mtu_bytes: None,
            patience: None,
            queue_requests: 512,
            // What Sherman and later indexes ask for.
            inline_bytes: 256,
            calls: 16,
            answer_wait: None,
            write_turn_ns_min: None,
        }
    }
}

impl VerbsOptions {
    /// Calls that a queue pair asks for.
    pub(super) fn calls(&self) -> u32 {
        self.calls.min(CREDITS_MAX)
    }

    /// The MTU exponent on a port whose active MTU has the exponent `active`.
    pub(super) fn mtu(&self, active: u8, device: &str) -> Result<u8, VerbsError> {
        choose_mtu(self.mtu_bytes, active, device)
    }
}

/// The exponent of a packet size: 1..=5 for 256 to 4096 bytes.
pub(crate) fn choose_mtu(asked_bytes: Option<u32>, active: u8, device: &str) -> Result<u8, VerbsError> {
    let Some(asked) = asked_bytes else { return Ok(active) };
    let exponent = (1..=5u8)
        .find(|&exponent| mtu_bytes(exponent) == asked)
        .ok_or_else(|| VerbsError::Choice(format!("--mtu {asked}: an MTU is 256, 512, 1024, 2048 or 4096 bytes")))?;
    if exponent > active {
        return Err(VerbsError::Mtu { device: device.to_owned(), asked, active: mtu_bytes(active) });
    }
    Ok(exponent)
}

/// Bytes of an MTU exponent.
pub(crate) const fn mtu_bytes(exponent: u8) -> u32 {
    128 << exponent
}

/// How long a memory node's processor may take to answer a call, on a platform. A call is some microseconds of work; the daemon
/// may have to wait for a processor first.
pub(super) const fn answer_wait_of(profile: Profile) -> Duration {
    match profile {
        // Of an emulated machine.
        Profile::SoftRoce => Duration::from_millis(200),
        _ => Duration::from_millis(10),
    }
}

impl Patience {
    /// What suits a platform: 0.5 s on hardware; 4 s where the device is software and its machine may be emulated.
    pub const fn of(profile: Profile) -> Self {
        match profile {
            Profile::SoftRoce => Self { timeout_exponent: 17, retries: 6 },
            _ => Self { timeout_exponent: 14, retries: 6 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mtu_is_what_the_port_has_or_less() {
        assert_eq!(choose_mtu(None, 3, "rxe0").unwrap(), 3);
        assert_eq!(choose_mtu(Some(512), 3, "rxe0").unwrap(), 2);
        let error = choose_mtu(Some(4096), 3, "rxe0").unwrap_err().to_string();
        assert_eq!(error, "--mtu 4096: the active MTU of rxe0 is 1024; give at most that, or raise the interface's");
        assert!(choose_mtu(Some(1000), 3, "rxe0").unwrap_err().to_string().contains("256, 512"));
    }
}
