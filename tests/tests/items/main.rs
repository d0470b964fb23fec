//! Keys and values of any length. `answers`: what operations answer, and their requests. `marking`: the walk that finds
//! which blocks are in use.

mod answers;
mod marking;
