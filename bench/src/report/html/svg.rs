//! Charts as inline SVG: lines over two axes, and bars. No script: a chart is drawn when the page is written.
//!
//! Every chart carries what it was drawn from in `data-` attributes of its axes and lines, so that a test, or a reader with a script,
//! can turn pixels back into values.

use std::fmt::Write;

/// The size of a chart, in user units.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 320.0;
/// Room for the labels around the plot.
const LEFT: f64 = 78.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;

/// How values become places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    /// Evenly.
    Linear,
    /// By their magnitude; values are above 0.
    Logarithmic,
}

/// One axis.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) label: String,
    scale: Scale,
    min: f64,
    max: f64,
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// An evenly divided axis from 0 to `max`, whose ticks `format` writes.
    pub(super) fn from_zero(label: &str, max: f64, format: impl Fn(f64) -> String) -> Self {
        let step = round_step(max.max(f64::MIN_POSITIVE) / 5.0);
        let steps = (max / step).ceil().max(1.0);
        Self {
            label: label.to_owned(),
            scale: Scale::Linear,
            min: 0.0,
            max: steps * step,
            ticks: (0..=steps as u32)
                .map(|n| f64::from(n) * step)
                .map(|at| (at, format(at)))
                .collect(),
        }
    }

    /// An axis by magnitude that holds `values`; ticks at powers of ten.
    pub(super) fn by_magnitude(
        label: &str,
        values: impl Iterator<Item = f64>,
        format: impl Fn(f64) -> String,
    ) -> Self {
        let (mut least, mut most) = (f64::MAX, f64::MIN_POSITIVE);
        for value in values.filter(|value| *value > 0.0) {
            least = least.min(value);
            most = most.max(value);
        }
        let low = least.min(most).log10().floor();
        let high = most.log10().ceil().max(low + 1.0);
        Self {
            label: label.to_owned(),
            scale: Scale::Logarithmic,
            min: 10_f64.powf(low),
            max: 10_f64.powf(high),
            ticks: (low as i32..=high as i32)
                .map(|power| 10_f64.powi(power))
                .map(|at| (at, format(at)))
                .collect(),
        }
    }

    /// An axis with ticks of its own.
    pub(super) fn with_ticks(label: &str, min: f64, max: f64, ticks: Vec<(f64, String)>) -> Self {
        Self {
            label: label.to_owned(),
            scale: Scale::Linear,
            min,
            max,
            ticks,
        }
    }

    /// Where `value` lies, 0 to 1.
    fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => (value - self.min) / (self.max - self.min),
            Scale::Logarithmic => (value.max(self.min) / self.min).log10() / (self.max / self.min).log10(),
        }
    }
}

/// 1, 2 or 5 times a power of ten, at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|rounded| *rounded >= step)
        .unwrap_or(10.0 * power)
}

/// A line of a chart.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
    /// For what was asked rather than measured.
    pub(super) dashed: bool,
}

/// A chart of lines; `shaded` is a stretch of the x axis with a name (the warm-up).
#[derive(Clone, Debug)]
pub(super) struct Lines {
    pub(super) id: &'static str,
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) lines: Vec<Line>,
    pub(super) shaded: Vec<(f64, f64, &'static str)>,
}

/// A chart of bars that stand side by side.
#[derive(Clone, Debug)]
pub(super) struct Bars {
    pub(super) id: &'static str,
    pub(super) title: String,
    pub(super) y: Axis,
    pub(super) bars: Vec<(String, f64)>,
}

/// What HTML and SVG must not see in text.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

fn x_of(place: f64) -> f64 {
    LEFT + place * (WIDTH - LEFT - RIGHT)
}

fn y_of(place: f64) -> f64 {
    HEIGHT - BOTTOM - place * (HEIGHT - TOP - BOTTOM)
}

fn open(out: &mut String, id: &str, title: &str) {
    let _ = write!(
        out,
        "<figure id=\"{id}\"><figcaption>{}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        escape(title),
        escape(title)
    );
}

fn draw_y(out: &mut String, axis: &Axis) {
    for (value, text) in &axis.ticks {
        let y = y_of(axis.place(*value));
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.2}\" x2=\"{:.2}\" y2=\"{y:.2}\"/>\
             <text class=\"tick-y\" data-value=\"{value}\" x=\"{:.2}\" y=\"{y:.2}\" dy=\"4\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            escape(text)
        );
    }
    let middle = (TOP + HEIGHT - BOTTOM) / 2.0;
    let _ = write!(
        out,
        "<text class=\"label\" transform=\"translate(14 {middle:.2}) rotate(-90)\">{}</text>",
        escape(&axis.label)
    );
}

impl Lines {
    /// The chart as a figure.
    pub(super) fn draw(&self) -> String {
        let mut out = String::new();
        open(&mut out, self.id, &self.title);
        for (from, to, name) in &self.shaded {
            let (left, right) = (x_of(self.x.place(*from)), x_of(self.x.place(*to)));
            let _ = write!(
                out,
                "<rect class=\"shade\" x=\"{left:.2}\" y=\"{TOP}\" width=\"{:.2}\" height=\"{:.2}\"/>\
                 <text class=\"shade-name\" x=\"{:.2}\" y=\"{:.2}\">{name}</text>",
                (right - left).max(0.0),
                HEIGHT - TOP - BOTTOM,
                left + 4.0,
                TOP + 12.0
            );
        }
        draw_y(&mut out, &self.y);
        for (value, text) in &self.x.ticks {
            let _ = write!(
                out,
                "<text class=\"tick-x\" data-value=\"{value}\" x=\"{:.2}\" y=\"{:.2}\">{}</text>",
                x_of(self.x.place(*value)),
                HEIGHT - BOTTOM + 16.0,
                escape(text)
            );
        }
        let _ = write!(
            out,
            "<text class=\"label\" x=\"{:.2}\" y=\"{:.2}\">{}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 8.0,
            escape(&self.x.label)
        );
        for (index, line) in self.lines.iter().enumerate() {
            let mut points = String::new();
            for (x, y) in &line.points {
                let _ = write!(
                    points,
                    "{:.2},{:.2} ",
                    x_of(self.x.place(*x)),
                    y_of(self.y.place(*y))
                );
            }
            let dashed = if line.dashed { " dashed" } else { "" };
            let _ = write!(
                out,
                "<polyline class=\"line c{}{dashed}\" data-line=\"{}\" points=\"{}\"><title>{}</title></polyline>",
                index % 8,
                escape(&line.name),
                points.trim_end(),
                escape(&line.name)
            );
        }
        out.push_str("</svg><p class=\"legend\">");
        for (index, line) in self.lines.iter().enumerate() {
            let _ = write!(
                out,
                "<span class=\"key c{}\"></span>{} ",
                index % 8,
                escape(&line.name)
            );
        }
        out.push_str("</p></figure>\n");
        out
    }
}

impl Bars {
    /// The chart as a figure.
    pub(super) fn draw(&self) -> String {
        let mut out = String::new();
        open(&mut out, self.id, &self.title);
        draw_y(&mut out, &self.y);
        let slot = (WIDTH - LEFT - RIGHT) / self.bars.len().max(1) as f64;
        // With many bars there is no room for a name below each; it is shown when pointed at.
        let named = self.bars.len() <= 40;
        for (index, (name, value)) in self.bars.iter().enumerate() {
            let left = LEFT + slot * index as f64;
            let top = y_of(self.y.place(*value));
            let _ = write!(
                out,
                "<rect class=\"bar\" data-bar=\"{}\" data-value=\"{value}\" x=\"{:.2}\" y=\"{top:.2}\" width=\"{:.2}\" height=\"{:.2}\"><title>{}: {value}</title></rect>",
                escape(name),
                left + slot * 0.1,
                (slot * 0.8).max(0.1),
                (y_of(0.0) - top).max(0.0),
                escape(name)
            );
            if named {
                let _ = write!(
                    out,
                    "<text class=\"tick-x\" x=\"{:.2}\" y=\"{:.2}\">{}</text>",
                    left + slot / 2.0,
                    HEIGHT - BOTTOM + 16.0,
                    escape(name)
                );
            }
        }
        out.push_str("</svg></figure>\n");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_hold_their_values_and_have_round_ticks() {
        let axis = Axis::from_zero("", 9_700.0, |at| at.to_string());
        assert_eq!((axis.max, axis.ticks.len()), (10_000.0, 6));
        assert_eq!(axis.place(5_000.0), 0.5);
        let axis = Axis::by_magnitude("", [250_000.0, 9_000_000.0].into_iter(), |at| at.to_string());
        assert_eq!((axis.min, axis.max), (100_000.0, 10_000_000.0));
        assert!((axis.place(1_000_000.0) - 0.5).abs() < 1e-9);
        // Nothing to show is still an axis.
        assert_eq!(Axis::from_zero("", 0.0, |_| String::new()).place(0.0), 0.0);
        let empty = Axis::by_magnitude("", std::iter::empty(), |_| String::new());
        assert!(empty.place(1.0).is_finite() && empty.max > empty.min);
    }

    #[test]
    fn text_cannot_leave_its_place() {
        assert_eq!(escape("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
    }
}
