//! Errors whose `Debug` is their text.

/// Makes an error's `Debug` its text. A `main` that returns an error prints the `Debug` of it, and so do `unwrap` and
/// `expect`.
macro_rules! debug_is_text {
    ($($Error:ty),*) => {
        $(
            impl std::fmt::Debug for $Error {
                fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    std::fmt::Display::fmt(self, f)
                }
            }
        )*
    };
}

pub(crate) use debug_is_text;
