//! Text and numbers on the UART. Not `core::fmt`, which is larger than an index.

use crate::board;

/// What can be printed.
pub trait Say {
    /// Prints it.
    fn say(&self);
}

impl Say for &str {
    fn say(&self) {
        for byte in self.bytes() {
            board::put(byte);
        }
    }
}

impl Say for u64 {
    fn say(&self) {
        let mut digits = [0; 20];
        let mut rest = *self;
        let mut count = 0;
        for digit in &mut digits {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
            count += 1;
            if rest == 0 {
                break;
            }
        }
        for digit in digits.iter().take(count).rev() {
            board::put(*digit);
        }
    }
}

impl Say for u32 {
    fn say(&self) {
        u64::from(*self).say();
    }
}

impl Say for usize {
    fn say(&self) {
        (*self as u64).say();
    }
}

/// Prints its arguments, one after the other.
#[macro_export]
macro_rules! say {
    ($($part:expr),* $(,)?) => {{ $($crate::console::Say::say(&$part);)* }};
}
