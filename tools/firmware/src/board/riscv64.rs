//! `qemu-system-riscv64 -M virt`: a 16550, the timer of the CLINT, and a test device for the exit code.

use core::arch::global_asm;

global_asm!(include_str!("../boot/riscv64.s"));

/// Name of the architecture in reports.
pub const NAME: &str = "riscv64";

const UART_DATA: *mut u8 = 0x1000_0000 as *mut u8;
const TIME: *const u64 = 0x0200_bff8 as *const u64;
const TIME_NS: u64 = 100;
const TEST_DEVICE: *mut u32 = 0x0010_0000 as *mut u32;

/// Prints a byte.
pub fn put(byte: u8) {
    // SAFETY: the data register of the board's UART.
    unsafe { UART_DATA.write_volatile(byte) };
}

/// Nanoseconds since the start.
pub fn clock_ns() -> u64 {
    // SAFETY: the time register of the board's CLINT; reading it changes nothing.
    unsafe { TIME.read_volatile() }.wrapping_mul(TIME_NS)
}

/// Ends the emulation with this exit code.
pub fn exit(code: u8) -> ! {
    const PASS: u32 = 0x5555;
    const FAIL: u32 = 0x3333;
    let word = if code == 0 { PASS } else { u32::from(code) << 16 | FAIL };
    loop {
        // SAFETY: the register of the board's test device.
        unsafe { TEST_DEVICE.write_volatile(word) };
    }
}
