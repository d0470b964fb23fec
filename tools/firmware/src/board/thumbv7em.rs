//! `qemu-system-arm -M mps2-an386`, a Cortex-M4: a CMSDK UART, the counter of the board; semihosting for the exit code.

use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicU32, Ordering};

global_asm!(include_str!("../boot/thumbv7em.s"));

/// Name of the architecture in reports.
pub const NAME: &str = "thumbv7em";

const UART_DATA: *mut u32 = 0x4000_4000 as *mut u32;
const UART_STATE: *const u32 = 0x4000_4004 as *const u32;
const UART_FULL: u32 = 1;
const UART_CONTROL: *mut u32 = 0x4000_4008 as *mut u32;
const UART_SEND: u32 = 1;
const UART_DIVIDER: *mut u32 = 0x4000_4010 as *mut u32;
const UART_DIVIDER_MIN: u32 = 16;

const COUNTER: *const u32 = 0x4002_8018 as *const u32;
const COUNTER_NS: u64 = 40;

/// Prints a byte.
pub fn put(byte: u8) {
    // SAFETY: registers of the board's first UART.
    unsafe {
        UART_DIVIDER.write_volatile(UART_DIVIDER_MIN);
        UART_CONTROL.write_volatile(UART_SEND);
        while UART_STATE.read_volatile() & UART_FULL != 0 {}
        UART_DATA.write_volatile(byte.into());
    }
}

/// Nanoseconds since the start, if called at least every 171 s.
pub fn clock_ns() -> u64 {
    // The counter has 32 bits; nothing interrupts this.
    static LAST: AtomicU32 = AtomicU32::new(0);
    static TURNS: AtomicU32 = AtomicU32::new(0);
    // SAFETY: the board's counter of cycles; reading it changes nothing.
    let now = unsafe { COUNTER.read_volatile() };
    if now < LAST.swap(now, Ordering::Relaxed) {
        TURNS.fetch_add(1, Ordering::Relaxed);
    }
    (u64::from(TURNS.load(Ordering::Relaxed)) << 32 | u64::from(now)).wrapping_mul(COUNTER_NS)
}

/// Ends the emulation with this exit code.
pub fn exit(code: u8) -> ! {
    const SYS_EXIT_EXTENDED: u32 = 0x20;
    const APPLICATION_EXIT: u32 = 0x20026;
    let block = [APPLICATION_EXIT, code.into()];
    loop {
        // SAFETY: a semihosting call; the block that it reads is valid until it returns.
        unsafe { asm!("bkpt #0xab", inout("r0") SYS_EXIT_EXTENDED => _, in("r1") block.as_ptr(), options(nostack)) };
    }
}
