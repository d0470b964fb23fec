//! Sherman, briefly.

use super::*;

#[test]
fn sherman_quick() {
    let count: u64 = std::env::var("COUNT").ok().and_then(|v| v.parse().ok()).unwrap_or(200);
    let first: u64 = std::env::var("FIRST").ok().and_then(|v| v.parse().ok()).unwrap_or(0);
    let mut verifier = Verifier::new(ShermanSubject, Settings::default());
    let start = std::time::Instant::now();
    let report = verifier.verify(first..first + count);
    let elapsed = start.elapsed().as_secs_f64();
    println!(
        "{report}\n{:.0} histories/min, {:.2} M steps/s",
        count as f64 / elapsed * 60.0,
        report.steps as f64 / elapsed / 1e6
    );
}
