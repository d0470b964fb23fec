//! Fabrics: who executes verb requests.

pub mod shm;
