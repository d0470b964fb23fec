//! The rooms of a crate and their imports: floors on the left, who imports whom on the right.
//!
//! Rooms are far too connected for lines between them. In a table of rooms, from the roof down, one look tells that nothing
//! imports upwards: all marks are on one side of the diagonal.

use super::svg::Svg;

/// A room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// Its name.
    pub name: String,
    /// Its floor, from the ground up.
    pub floor: usize,
}

/// Side of a cell of the table.
const CELL: f64 = 20.0;

/// Most files of a small mark, and of one of middle size.
pub const FEW: usize = 2;
/// See there.
pub const SOME: usize = 8;

/// Width of the house.
const HOUSE: f64 = 420.0;

const LEFT: f64 = 40.0;
const TABLE: f64 = LEFT + HOUSE + 90.0;

/// Draws the rooms, which are in order from the ground up. `imports` counts the files of its first room that import
/// something of its second.
pub fn draw(title: &str, about: &str, rooms: &[Room], imports: impl Fn(&str, &str) -> usize) -> String {
    let rooms: Vec<&Room> = rooms.iter().rev().collect();
    let side = rooms.len() as f64 * CELL;
    let mut svg = Svg::new(TABLE + side + 24.0, title);
    svg.text((16.0, 28.0), "title", title);
    let top = svg.paragraph((16.0, 48.0), "dim", 150, 15.0, about) + 78.0;
    let row = |position: usize| top + position as f64 * CELL;
    let column = |position: usize| TABLE + position as f64 * CELL;
    svg.text((LEFT, top - 10.0), "small dim", "a floor imports from those below it");
    // Floors, as bands that go through house and table.
    let mut at = 0;
    while at < rooms.len() {
        let floor = rooms[at].floor;
        let count = rooms[at..].iter().take_while(|room| room.floor == floor).count();
        let height = count as f64 * CELL;
        if floor.is_multiple_of(2) {
            svg.rect((16.0, row(at)), (TABLE + side - 16.0, height), "band");
        }
        svg.text((34.0, row(at) + height / 2.0 + 4.0), "tiny dim end", &floor.to_string());
        // Rooms of a floor do not import each other: they stand side by side, in the order of the table.
        let width = HOUSE / count as f64;
        for (position, room) in rooms[at..at + count].iter().enumerate() {
            let x = LEFT + position as f64 * width;
            svg.rect((x + 1.0, row(at) + 1.0), (width - 2.0, height - 2.0), "box");
            svg.text((x + width / 2.0, row(at) + height / 2.0 + 4.0), "small strong mid", &room.name);
        }
        at += count;
    }
    for (position, room) in rooms.iter().enumerate() {
        svg.text((TABLE - 6.0, row(position) + 14.0), "small end", &room.name);
        svg.text_up((column(position) + 14.0, top - 8.0), "small", &room.name);
        svg.line((column(position), top), (column(position), top + side), "grid");
        svg.rect((column(position), row(position)), (CELL, CELL), "h0");
    }
    svg.line((column(rooms.len()), top), (column(rooms.len()), top + side), "grid");
    for (from, importer) in rooms.iter().enumerate() {
        for (to, imported) in rooms.iter().enumerate().filter(|(to, _)| *to != from) {
            let files = imports(&importer.name, &imported.name);
            if files > 0 {
                // Three sizes: a picture of exact numbers would be another one after every change of the sources.
                let radius = if files <= FEW {
                    2.0
                } else if files <= SOME {
                    4.0
                } else {
                    7.0
                };
                svg.circle((column(to) + CELL / 2.0, row(from) + CELL / 2.0), radius, "ours");
            }
        }
    }
    svg.finish(top + side + 16.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_is_a_mark_in_the_row_of_its_importer() {
        let room = |name: &str, floor| Room { name: name.to_owned(), floor };
        let rooms = [room("ground", 0), room("left", 1), room("right", 1)];
        let text = draw("t", "a", &rooms, |from, to| usize::from(from == "left" && to == "ground"));
        assert_eq!(text.matches("<circle").count(), 1);
        // From the roof down: right, left, ground.
        let (x, y) = (TABLE + 2.5 * CELL, 48.0 + 15.0 + 78.0 + 1.5 * CELL);
        assert!(text.contains(&format!("<circle cx=\"{x:.0}\" cy=\"{y:.0}\"")), "{text}");
    }
}
