//! `qemu-system-aarch64 -M virt -cpu cortex-a72`: a PL011, the generic timer; semihosting for the exit code.

use core::arch::{asm, global_asm};

global_asm!(include_str!("../boot/aarch64.s"));

/// Name of the architecture in reports.
pub const NAME: &str = "aarch64";

const UART_DATA: *mut u32 = 0x0900_0000 as *mut u32;

/// Prints a byte.
pub fn put(byte: u8) {
    // SAFETY: the data register of the board's first UART, which is mapped as device memory.
    unsafe { UART_DATA.write_volatile(byte.into()) };
}

/// Nanoseconds since the start.
pub fn clock_ns() -> u64 {
    let (ticks, hertz): (u64, u64);
    // SAFETY: these registers are readable at EL1 and reading them changes nothing.
    unsafe {
        asm!("mrs {}, cntvct_el0", "mrs {}, cntfrq_el0", out(reg) ticks, out(reg) hertz, options(nomem, nostack));
    }
    (u128::from(ticks) * 1_000_000_000 / u128::from(hertz.max(1))) as u64
}

/// Ends the emulation with this exit code.
pub fn exit(code: u8) -> ! {
    const SYS_EXIT: u64 = 0x18;
    const APPLICATION_EXIT: u64 = 0x20026;
    let block = [APPLICATION_EXIT, code.into()];
    loop {
        // SAFETY: a semihosting call; the block that it reads is valid until it returns.
        unsafe { asm!("hlt #0xf000", in("x0") SYS_EXIT, in("x1") block.as_ptr(), options(nostack, readonly)) };
    }
}
