//! Tests of the simulated fabrics: what they order, what they may reorder, what can break.

mod direct;
mod driver;
mod faults;
mod orders;
mod storm;
