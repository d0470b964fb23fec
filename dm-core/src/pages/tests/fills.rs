//! fills
