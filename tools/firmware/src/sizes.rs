//! What the image takes, in bytes: lines that `tools/firmware/run` compares with `sizes.txt`.

use crate::{Wrong, say};

/// What the start code has filled the stack with.
const PAINT: usize = usize::from_ne_bytes([0xA5; size_of::<usize>()]);

/// Symbols of the linker script: only their addresses mean something.
mod symbols {
    // SAFETY: `link/sections.ld` defines all of them, and nobody reads what is there by these names.
    unsafe extern "C" {
        pub safe static __code_start: u8;
        pub safe static __code_end: u8;
        pub safe static __data_start: u8;
        pub safe static __data_end: u8;
        pub safe static __bss_start: u8;
        pub safe static __bss_end: u8;
        pub safe static __stack_start: usize;
        pub safe static __stack_end: usize;
    }
}

/// Prints the sizes. Fails if the stack was used up.
pub fn report(lane_bytes: usize) -> Result<(), Wrong> {
    use symbols::*;
    let code_bytes = (&raw const __code_end).addr() - (&raw const __code_start).addr();
    let data_bytes = (&raw const __data_end).addr() - (&raw const __data_start).addr();
    let bss_bytes = (&raw const __bss_end).addr() - (&raw const __bss_start).addr();
    let stack_bytes = stack_bytes();
    say!("size code ", code_bytes, "\n");
    say!("size static ", data_bytes + bss_bytes, "\n");
    say!("size stack ", stack_bytes, "\n");
    say!("size ram ", data_bytes + bss_bytes + stack_bytes, "\n");
    say!("size lane ", lane_bytes, "\n");
    let room_bytes = (&raw const __stack_end).addr() - (&raw const __stack_start).addr();
    if stack_bytes < room_bytes { Ok(()) } else { Err(Wrong::of("the stack was used up")) }
}

/// The most bytes of the stack that were in use.
fn stack_bytes() -> usize {
    let (start, end) = (&raw const symbols::__stack_start, &raw const symbols::__stack_end);
    let mut word = start;
    // SAFETY: all words from the start to the end of the stack can be read; the start code has painted them.
    while word < end && unsafe { word.read_volatile() } == PAINT {
        word = word.wrapping_add(1);
    }
    end.addr() - word.addr()
}
