//! Common parts of all charts: page, text, colors, scales and axes.
//!
//! ```text
//! page ─┬─ text, COLORS ─────────────► SVG as text
//!       └─ Frame, Axis ─► Plot: marks placed by two Scales
//! ```
//!
//! Charts are written as text and read nothing else: the data alone decides every byte.

mod axes;
mod scale;

pub(crate) use axes::{Axis, Frame, Plot, Point};
pub(crate) use scale::{Scale, number};

/// Colors that color-blind readers can distinguish, dark enough on white.
pub(crate) const COLORS: [&str; 8] = [
    "#1d5fd1", "#d9680b", "#0b8a5e", "#b0209a", "#c9252d", "#0a8aa8", "#7a5a00", "#5b4bd6",
];

pub(crate) const INK: &str = "#1c2430";
pub(crate) const SOFT: &str = "#5a6675";
pub(crate) const GRID: &str = "#e3e7ec";

/// Begin of a chart of this size: its title for screen readers, white background, frame.
pub(crate) fn page(width: f64, height: f64, title: &str) -> String {
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" font-family="system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif" font-size="13" fill="{INK}">
<title>{}</title>
<rect width="{width:.0}" height="{height:.0}" rx="10" fill="#ffffff"/><rect x="0.5" y="0.5" width="{:.0}" height="{:.0}" rx="9.5" fill="none" stroke="#cfd6de"/>
"##,
        escape(title),
        width - 1.0,
        height - 1.0
    )
}

pub(crate) fn text(x: f64, y: f64, words: &str, style: &str) -> String {
    format!(
        r#"<text x="{x:.1}" y="{y:.1}" {style}>{}</text>"#,
        escape(words)
    )
}

/// Title at the top of a chart.
pub(crate) fn title(words: &str) -> String {
    text(24.0, 36.0, words, r#"font-size="18" font-weight="600""#)
}

/// Subtitle at `y`, below the title.
pub(crate) fn subtitle(y: f64, words: &str) -> String {
    text(24.0, y, words, &format!(r#"font-size="12" fill="{SOFT}""#))
}

/// Escapes characters with a meaning in XML, and removes those that XML does not allow.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            character if character.is_control() => out.push('\u{fffd}'),
            character => out.push(character),
        }
    }
    out
}

/// Asserts that tags are balanced and nested, and that attributes are quoted.
#[cfg(test)]
pub(crate) fn assert_well_formed(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = svg;
    while let Some(start) = rest.find('<') {
        assert!(!rest[..start].contains('>'), "{}", &rest[..start]);
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split(' ').next().expect("a name"));
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "{open:?}");
}
