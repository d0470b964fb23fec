//! Proofs that the seams hold for indexes to come: what is here compiles against them and is never run. Each file says
//! where a trait does not fit yet, and what it would need.

mod art_router;
mod spear;
