//! Pictures, drawn from what the program knows: nothing in them is drawn by hand.
//!
//! | module | what it draws, from what |
//! |---|---|
//! | [`svg`] | shapes and letters, light and dark: what the others draw with |
//! | [`axis`] | the axes of charts |
//! | [`pairs`] | charts of rows with two values: the figures beside the papers', a trial beside what it is compared with |
//! | [`leaf`] | a leaf with its bytes, from the tables of the [layouts](crate::layout) |
//! | [`verbs`] | the requests of operations in time, from the goldens of requests |
//! | [`house`] | the rooms of a crate and their imports, as a reader of its sources finds them |
//!
//! What `dm figures --svg` draws is beside the figures.

pub mod axis;
pub mod house;
pub mod leaf;
pub mod pairs;
pub mod svg;
pub mod verbs;
