//! Range indexes on disaggregated memory, as algorithms that emit verb requests.
#![no_std]
#![forbid(unsafe_code)]

pub mod btree;
pub mod compute;
pub mod error;
pub mod index;
pub mod lane;
pub mod layout;
pub mod machine;
pub mod port;
pub mod remote;
pub mod sherman;
pub mod verbs;
