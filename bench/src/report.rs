//! The table: one line a measurement, with its ratio and the limit it has to keep.

use std::fmt::Write as _;
use std::time::Duration;

use crate::stats::Summary;

/// The limit of a figure.
#[derive(Debug, Clone, Copy)]
pub enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

impl Limit {
    fn keeps(self, figure: f64) -> bool {
        match self {
            Self::AtMost(limit) => figure <= limit,
            Self::AtLeast(limit) => figure >= limit,
        }
    }

    fn shown(self) -> String {
        match self {
            Self::AtMost(limit) => format!("<= {limit}"),
            Self::AtLeast(limit) => format!(">= {limit}"),
        }
    }
}

#[derive(Debug, Default)]
pub struct Report {
    broken: Vec<String>,
    not_measured: Vec<String>,
}

impl Report {
    pub fn section(&self, title: &str) {
        println!("\n{title}");
    }

    /// The header of the lines that [`Self::times`] and [`Self::against`] print.
    pub fn header(&self) {
        println!("  {:<36} {:>9} {:>9} {:>9}", "", "median", "p90", "min");
    }

    pub fn times(&self, name: &str, s: &Summary) {
        println!("{}", row(name, s));
    }

    /// A row with its ratio to another one.
    pub fn against(
        &mut self,
        name: &str,
        s: &Summary,
        base_name: &str,
        base: &Summary,
        limit: Option<Limit>,
    ) {
        let ratio = s.ratio(base);
        let verdict = self.verdict(&format!("{name} / {base_name}"), ratio, limit);
        println!("{}   {ratio:.2} x {base_name}{verdict}", row(name, s));
    }

    /// A figure that is not a time.
    pub fn figure(&mut self, name: &str, value: f64, unit: &str, limit: Option<Limit>) {
        let verdict = self.verdict(name, value, limit);
        println!("  {name:<36} {value:>9.2} {unit}{verdict}");
    }

    pub fn not_measured(&mut self, what: &str, why: &str) {
        println!("  {what}: not measured: {why}");
        self.not_measured.push(what.to_owned());
    }

    /// The closing lines. False if a limit was broken.
    pub fn close(&self) -> bool {
        println!();
        if !self.not_measured.is_empty() {
            println!("not measured: {}", self.not_measured.join(", "));
        }
        if self.broken.is_empty() {
            println!("every limit that was measured is kept");
        }
        for line in &self.broken {
            println!("over the limit: {line}");
        }
        self.broken.is_empty()
    }

    fn verdict(&mut self, what: &str, figure: f64, limit: Option<Limit>) -> String {
        let mut text = String::new();
        if let Some(limit) = limit {
            let kept = limit.keeps(figure);
            if !kept {
                self.broken
                    .push(format!("{what} is {figure:.2}, has to be {}", limit.shown()));
            }
            let word = if kept { "kept" } else { "BROKEN" };
            let _ = write!(text, "  (limit {}: {word})", limit.shown());
        }
        text
    }
}

fn row(name: &str, s: &Summary) -> String {
    let us = |d: Duration| format!("{:.0} µs", d.as_secs_f64() * 1e6);
    format!(
        "  {name:<36} {:>9} {:>9} {:>9}",
        us(s.median),
        us(s.p90),
        us(s.min)
    )
}
