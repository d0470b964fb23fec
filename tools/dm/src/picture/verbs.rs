//! The requests of operations in time: what the goldens of requests say, drawn.
//!
//! A golden has a line for each operation and, below it, its steps if it has some: requests of one submit separated by commas,
//! submits by semicolons. The tests of the goldens run the operations; nothing here knows what an index does.

use super::svg::{LETTER, Svg, lines};

/// A request of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `read`, `write`, `cas` and so on.
    pub verb: String,
    /// Which step of the operation it is.
    pub label: String,
    /// Payload.
    pub bytes: u64,
}

/// An operation of a golden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Which, and in what situation.
    pub what: String,
    /// How it ended, and what it cost.
    pub ended: String,
    /// Its submits.
    pub submits: Vec<Vec<Request>>,
}

/// A chapter of a golden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chapter {
    /// The situation.
    pub title: String,
    /// Its operations.
    pub operations: Vec<Operation>,
}

/// Reads a golden. The error has the line that is none of a golden.
pub fn parse(text: &str) -> Result<Vec<Chapter>, String> {
    let mut chapters: Vec<Chapter> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let wrong = || format!("not a line of a golden of requests: {line}");
        if let Some(steps) = line.strip_prefix("    ") {
            let operation = chapters.last_mut().and_then(|chapter| chapter.operations.last_mut()).ok_or_else(wrong)?;
            let submits = steps.split("; ").map(|submit| submit.split(", ").map(request).collect());
            operation.submits = submits.collect::<Option<_>>().ok_or_else(wrong)?;
        } else if let Some((what, ended)) = line.split_once(" -> ") {
            let operation = Operation { what: what.to_owned(), ended: ended.to_owned(), submits: Vec::new() };
            chapters.last_mut().ok_or_else(wrong)?.operations.push(operation);
        } else {
            chapters.push(Chapter { title: line.to_owned(), operations: Vec::new() });
        }
    }
    Ok(chapters)
}

fn request(text: &str) -> Option<Request> {
    let (verb, rest) = text.split_once(' ')?;
    let (label, bytes) = rest.rsplit_once(' ')?;
    Some(Request { verb: verb.to_owned(), label: label.to_owned(), bytes: bytes.parse().ok()? })
}

/// Operations of one situation, in one picture.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// The situation.
    pub title: &'a str,
    /// The operations.
    pub operations: Vec<&'a Operation>,
}

/// Width of a round trip.
const TRIP: f64 = 134.0;

/// Of which one request takes so much there, and as much back.
const ONE_WAY: f64 = 46.0;

/// Where time begins, below it what the operations are.
const LEFT: f64 = 236.0;

/// Round trips in a row.
const TRIPS: usize = 6;

/// Height of the way between compute node and memory node.
const WAY: f64 = 40.0;

/// Draws groups of operations. Those of a group that post the same requests are drawn once.
pub fn draw(title: &str, about: &str, groups: &[Group<'_>]) -> String {
    let mut svg = Svg::new(LEFT + TRIPS as f64 * TRIP + 16.0, title);
    svg.text((16.0, 28.0), "title", title);
    let mut y = svg.paragraph((16.0, 48.0), "dim", 144, 15.0, about);
    for group in groups {
        y += 20.0;
        svg.text((16.0, y), "strong", group.title);
        y += 12.0;
        let mut left: Vec<&Operation> = group.operations.clone();
        while let Some(first) = left.first().copied() {
            let (same, others): (Vec<&Operation>, Vec<&Operation>) =
                left.into_iter().partition(|operation| operation.submits == first.submits);
            left = others;
            y = draw_operation(&mut svg, &same, y);
        }
    }
    svg.finish(y + 10.0)
}

/// The same requests one after the other, and how many.
fn counted(submit: &[Request]) -> Vec<(usize, &Request)> {
    let mut counted: Vec<(usize, &Request)> = Vec::new();
    for request in submit {
        match counted.last_mut() {
            Some((count, last)) if *last == request => *count += 1,
            _ => counted.push((1, request)),
        }
    }
    counted
}

/// What a class of verbs looks like.
fn class(verb: &str) -> &'static str {
    match verb {
        "read" => "read",
        "write" => "write",
        "call" | "rpc" => "call",
        _ => "atomic",
    }
}

fn draw_operation(svg: &mut Svg, same: &[&Operation], y: f64) -> f64 {
    let first = same[0];
    let names: Vec<_> = same.iter().map(|operation| operation.what.as_str()).collect();
    let cost = first.ended.rsplit_once(": ").map_or(first.ended.as_str(), |(_, cost)| cost);
    let mut at = y + 16.0;
    for line in lines(&names.join("; "), 28) {
        svg.text((16.0, at), "small strong", &line);
        at += 13.0;
    }
    for line in lines(&spelled(cost), 32) {
        svg.text((16.0, at), "small dim", &line);
        at += 13.0;
    }
    let mut below = y + 6.0;
    if first.submits.is_empty() {
        svg.text((LEFT, y + 16.0), "tiny dim", "no request");
    }
    for row in first.submits.chunks(TRIPS) {
        below = draw_row(svg, row, below);
    }
    let end = at.max(below) + 6.0;
    svg.line((16.0, end), (LEFT + TRIPS as f64 * TRIP, end), "grid");
    end
}

/// The cost of an operation in words that need no glossary.
fn spelled(cost: &str) -> String {
    let cost = cost.replace("RTT", "round trips");
    let singular =
        |part: &str| if part.starts_with("1 ") { part.trim_end_matches('s').to_owned() } else { part.to_owned() };
    cost.split(", ").map(singular).collect::<Vec<_>>().join(", ")
}

/// Submits one after the other, a round trip each.
fn draw_row(svg: &mut Svg, submits: &[Vec<Request>], y: f64) -> f64 {
    let (top, bottom) = (y + 8.0, y + 8.0 + WAY);
    let right = LEFT + submits.len() as f64 * TRIP;
    svg.text((LEFT - 6.0, top + 4.0), "tiny dim end", "CN");
    svg.text((LEFT - 6.0, bottom + 4.0), "tiny dim end", "MN");
    svg.line((LEFT, top), (right, top), "axis");
    svg.line((LEFT, bottom), (right, bottom), "axis");
    let mut below = bottom;
    for (trip, submit) in submits.iter().enumerate() {
        let x = LEFT + trip as f64 * TRIP + 4.0;
        let counted = counted(submit);
        // Each arrow is a little later than the one before, and all of them end before the round trip does.
        let step = (22.0 / counted.len() as f64).min(9.0);
        let mut at = bottom + 13.0;
        for (position, (count, request)) in counted.iter().enumerate() {
            let (start, class) = (x + position as f64 * step, class(&request.verb));
            svg.arrow((start, top), (start + ONE_WAY, bottom), class);
            let Request { verb, label, bytes } = request;
            let times = if *count > 1 { format!("{count} \u{d7} ") } else { String::new() };
            let text = format!("{times}{} {label} {bytes} B", verb.replace("masked-cas", "cas*").to_uppercase());
            debug_assert!(text.len() as f64 * LETTER < 2.0 * TRIP);
            svg.text((x, at), &format!("tiny {class}"), &text);
            at += 11.0;
        }
        let last = x + (counted.len().saturating_sub(1)) as f64 * step;
        let answer = counted.last().map_or("read", |(_, request)| class(&request.verb));
        svg.arrow((last + ONE_WAY, bottom), (last + 2.0 * ONE_WAY, top), &format!("{answer} dash"));
        below = below.max(at);
    }
    below
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &str = "cached\n\nget, present -> Found: 1 RTT, 1 requests, 8 B read, 0 B written\n    read leaf 8\n\
                          update -> Updated: 2 RTT, 3 requests, 8 B read, 8 B written\n    cas lock 8; write entry 8, cas unlock 8\n\
                          upsert -> Replaced: 2 RTT, 3 requests, 8 B read, 8 B written\n    cas lock 8; write entry 8, cas unlock 8\n\n\
                          cold\n\nget -> Found: 1 RTT, 1 requests, 8 B read, 0 B written\n    read hopscotch leaf 8\n";

    #[test]
    fn a_golden_is_read_as_its_steps() {
        let chapters = parse(GOLDEN).unwrap();
        assert_eq!(chapters.iter().map(|chapter| chapter.title.as_str()).collect::<Vec<_>>(), ["cached", "cold"]);
        let update = &chapters[0].operations[1];
        assert_eq!(update.submits.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2]);
        let last = &chapters[1].operations[0].submits[0][0];
        assert_eq!((last.verb.as_str(), last.label.as_str(), last.bytes), ("read", "hopscotch leaf", 8));
        assert!(parse("    read leaf 8").is_err() && parse("a\nb -> c\n    read leaf many").is_err());
    }

    #[test]
    fn an_operation_may_have_no_requests() {
        let chapters = parse(
            "cached\n\nget -> Found: 0 RTT, 0 requests, 0 B read, 0 B written\nupdate -> Updated: 0 RTT, 0 requests\n",
        )
        .unwrap();
        assert!(chapters[0].operations.iter().all(|operation| operation.submits.is_empty()));
        let operations = chapters[0].operations.iter().collect();
        let text = draw("title", "about", &[Group { title: "cached", operations }]);
        assert_eq!(text.matches(">no request</text>").count(), 1);
        assert!(text.contains(">get; update</text>") && !text.contains(">CN</text>"), "{text}");
    }

    #[test]
    fn operations_with_the_same_requests_are_drawn_once() {
        let chapters = parse(GOLDEN).unwrap();
        let operations = chapters[0].operations.iter().collect();
        let text = draw("title", "about", &[Group { title: "cached", operations }]);
        assert!(text.contains(">update; upsert</text>") && text.contains(">1 round trip, 1 request, 8 B"), "{text}");
        assert_eq!(text.matches("WRITE entry 8 B").count(), 1);
        assert_eq!(text.matches(">CN</text>").count(), 2);
    }
}
