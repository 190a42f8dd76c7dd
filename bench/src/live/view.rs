//! The live view, drawn from what is known at the moment. It changes nothing.

use super::{Second, State, Watched};
use crate::clock::{Nanos, SECOND};
use crate::units::{format_count, format_nanos};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Gauge, Paragraph, Sparkline};

/// The last lines said that are shown.
pub(super) const LINES_SAID: usize = 3;

/// Rows of a chart with its title.
const CHART_ROWS: u16 = 7;

const DIM: Style = Style::new().fg(Color::DarkGray);
const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);

pub(super) fn draw(frame: &mut Frame<'_>, state: &State, said: &[String]) {
    let [steps, load, gauge, figures, throughput, latency, below] = Layout::vertical([
        Constraint::Length(state.steps.len() as u16 + 2),
        Constraint::Length(3),
        Constraint::Length(1),
        Constraint::Length(3),
        Constraint::Max(CHART_ROWS),
        Constraint::Max(CHART_ROWS),
        Constraint::Min(LINES_SAID as u16 + 1),
    ])
    .areas(frame.area());
    draw_steps(frame, steps, state);
    if let Some(watched) = &state.watched {
        let now = watched.clock.now();
        draw_load(frame, load, watched);
        draw_gauge(frame, gauge, watched, now);
        draw_figures(frame, figures, state, watched, now);
        draw_charts(frame, throughput, latency, state);
    }
    let mut lines: Vec<Line<'_>> = said.iter().map(|line| Line::raw(line.as_str())).collect();
    lines.push(Line::styled(
        "Ctrl-C ends the run early and keeps what was measured",
        DIM,
    ));
    frame.render_widget(Paragraph::new(lines), below);
}

fn draw_steps(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let lines: Vec<Line<'_>> = state
        .steps
        .iter()
        .map(|step| match (step.began, step.took) {
            (_, Some(took)) => Line::styled(format!("✓ {}  {:.1} s", step.what, took.as_secs_f64()), DIM),
            (Some(began), None) => Line::styled(
                format!("▶ {}  {:.1} s", step.what, began.elapsed().as_secs_f64()),
                STRONG,
            ),
            (None, None) => Line::styled(format!("  {}", step.what), DIM),
        })
        .collect();
    let title = format!(" strandline-bench: {} ", state.title);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(title)), area);
}

fn draw_load(frame: &mut Frame<'_>, area: Rect, watched: &Watched) {
    let row = |name: &'static str, text: &str| {
        Line::from(vec![
            Span::styled(format!("{name:<9}"), DIM),
            Span::raw(text.to_owned()),
        ])
    };
    let lines = vec![
        row("target", &watched.target),
        row("durable", &watched.durability),
        row("load", &watched.load),
    ];
    frame.render_widget(Paragraph::new(lines), area);
}

fn draw_gauge(frame: &mut Frame<'_>, area: Rect, watched: &Watched, now: Nanos) {
    let at = now.saturating_sub(watched.start);
    let done = (at as f64 / watched.phases.end.max(1) as f64).clamp(0.0, 1.0);
    let label = format!(
        "{}  {} of {} s",
        watched.phase(now),
        at.min(watched.phases.end) / SECOND,
        watched.phases.end.div_ceil(SECOND)
    );
    let gauge = Gauge::default()
        .ratio(done)
        .label(label)
        .gauge_style(Style::new().fg(Color::Blue));
    frame.render_widget(gauge, area);
}

fn draw_figures(frame: &mut Frame<'_>, area: Rect, state: &State, watched: &Watched, now: Nanos) {
    let last = state.history.back().copied().unwrap_or_default();
    let offered = watched.offered.as_ref().map_or_else(
        || "as fast as it goes".to_owned(),
        |rate| {
            let at = now.saturating_sub(watched.start);
            format!("{} records/s", format_count(rate.rate_at(at).round() as u64))
        },
    );
    let time = |value: Option<Nanos>| value.map_or_else(|| "none".to_owned(), format_nanos);
    let lines = vec![
        Line::raw(format!(
            "offered  {offered}   acknowledged {} records/s = {:.1} MB/s   read {} records/s",
            format_count(last.acknowledged),
            last.acknowledged as f64 * watched.record_bytes / 1e6,
            format_count(last.received)
        )),
        Line::raw(format!(
            "response of the last second  p50 {}   p99 {}   max {}",
            time(last.p50),
            time(last.p99),
            time(last.max)
        )),
        Line::raw(watched.waiting(now).map_or_else(String::new, |records| {
            format!("due and not acknowledged yet  {} records", format_count(records))
        })),
    ];
    frame.render_widget(Paragraph::new(lines), area);
}

fn draw_charts(frame: &mut Frame<'_>, throughput: Rect, latency: Rect, state: &State) {
    let newest = |width: u16, value: fn(&Second) -> u64| -> Vec<u64> {
        let skipped = state
            .history
            .len()
            .saturating_sub(usize::from(width.saturating_sub(2)));
        state.history.iter().skip(skipped).map(value).collect()
    };
    let most = |value: fn(&Second) -> u64| state.history.iter().map(value).max().unwrap_or(0);
    let acknowledged: fn(&Second) -> u64 = |second| second.acknowledged;
    let p99: fn(&Second) -> u64 = |second| second.p99.unwrap_or(0);
    for (area, title, value, colour) in [
        (
            throughput,
            format!(" records/s, at most {} ", format_count(most(acknowledged))),
            acknowledged,
            Color::Green,
        ),
        (
            latency,
            format!(" response p99, at most {} ", format_nanos(most(p99))),
            p99,
            Color::Yellow,
        ),
    ] {
        let data = newest(area.width, value);
        let chart = Sparkline::default()
            .block(Block::bordered().title(title))
            .style(Style::new().fg(colour))
            .data(&data);
        frame.render_widget(chart, area);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::live::Step;
    use crate::schedule::IntegratedRate;
    use crate::sender::Progress;
    use crate::series::Phases;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;
    use std::time::{Duration, Instant};

    fn shown(state: &State, said: &[String], size: (u16, u16)) -> String {
        let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
        terminal.draw(|frame| draw(frame, state, said)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| (0..size.0).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..size.1).map(|y| row(y) + "\n").collect()
    }

    fn state() -> State {
        let clock = Clock::start();
        let step = |what: &str, began, took| Step {
            what: what.to_owned(),
            began,
            took,
        };
        let now = Instant::now();
        State {
            title: "default".to_owned(),
            steps: vec![
                step("limits", Some(now), Some(Duration::from_millis(2500))),
                step("the run", Some(now), None),
                step("the floor", None, None),
            ],
            watched: Some(Watched {
                target: "a broker".to_owned(),
                durability: "yes".to_owned(),
                load: "12 partitions".to_owned(),
                clock,
                start: 0,
                // Over before it was drawn, so that what is due does not depend on when that is.
                phases: Phases { warm_up: 1, end: 2 },
                offered: Some(IntegratedRate::constant(5e9 * 1e3)),
                record_bytes: 1000.0,
                progress: Arc::new(Progress {
                    acknowledged: AtomicU64::new(4_000),
                    ..Progress::default()
                }),
            }),
            history: [1_000, 3_000]
                .map(|acknowledged| Second {
                    acknowledged,
                    received: 2_999,
                    p50: Some(120_000),
                    p99: Some(acknowledged * 1_000),
                    max: None,
                })
                .into(),
        }
    }

    #[test]
    fn it_shows_steps_figures_and_what_was_said() {
        let text = shown(&state(), &["the disk is slow".to_owned()], (120, 32));
        for part in [
            "strandline-bench: default",
            "✓ limits  2.5 s",
            "▶ the run",
            "  the floor",
            "target   a broker",
            "durable  yes",
            "draining  0 of 1 s",
            "acknowledged 3,000 records/s = 3.0 MB/s   read 2,999 records/s",
            "p50 120 µs   p99 3.00 ms   max none",
            "due and not acknowledged yet  6,000 records",
            "records/s, at most 3,000",
            "response p99, at most 3.00 ms",
            "the disk is slow",
            "Ctrl-C",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        assert!(text.contains('█'), "the charts are drawn:\n{text}");
    }

    #[test]
    fn a_small_terminal_shows_what_fits() {
        for size in [(1, 1), (20, 5), (80, 24), (300, 100)] {
            shown(&state(), &[], size);
            shown(&State::default(), &[], size);
        }
    }
}
