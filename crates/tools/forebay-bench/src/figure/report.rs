//! A figure's files and what is said of it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::definition::{Definition, Drawing};
use super::scan::Scanned;
use super::{Options, broken};
use crate::net::Skipped;
use forebay_report::conditions::Conditions;
use forebay_report::plot::{self, Bars, Flame, Picture};
use forebay_report::rows::{Row, columns_of, parquet};

/// A figure that was made.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Report {
    /// Identifier.
    pub id: &'static str,
    /// Title.
    pub title: &'static str,
    /// What others published.
    pub published: &'static str,
    /// Published values beside ours.
    pub comparison: Vec<String>,
    /// What is emulated.
    pub remark: &'static str,
    /// Our values are computed by a model, and not measured.
    pub is_model: bool,
    /// The conditions.
    pub conditions: Conditions,
    /// Runs of each point.
    pub runs: usize,
    /// Rows in which the books did not close; 0 when all is well.
    pub rows_with_residual: usize,
    /// What makes the numbers doubtful.
    pub warnings: Vec<String>,
    /// What cannot be measured here.
    pub skipped: Vec<Skipped>,
    /// Ended before all points were measured.
    pub interrupted: bool,
    /// Rows.
    pub csv: PathBuf,
    /// The same, if there are any.
    pub parquet: Option<PathBuf>,
    /// Picture as SVG.
    pub svg: PathBuf,
    /// Picture as PNG.
    pub png: PathBuf,
}

impl Report {
    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = vec![
            format!("{}: {}", self.id, self.title),
            format!("  published: {}", self.published),
        ];
        lines.extend(self.comparison.iter().map(|line| format!("  {line}")));
        lines.push(format!("  {}", self.remark));
        lines.push(match self.is_model {
            true => format!("  {} seed(s) of each point, medians", self.runs),
            false => format!(
                "  {} run(s) of each point, medians; {}",
                self.runs,
                self.conditions.line()
            ),
        });
        lines.extend(self.skipped.iter().map(|skipped| format!("  {skipped}")));
        lines.extend(
            self.warnings
                .iter()
                .map(|warning| format!("  WARNING: {warning}")),
        );
        if self.rows_with_residual > 0 {
            lines.push(format!(
                "  THE BOOKS DO NOT CLOSE in {} row(s)",
                self.rows_with_residual
            ));
        }
        if self.interrupted {
            lines.push("  interrupted: not all points were measured".to_owned());
        }
        let files = [&self.csv].into_iter().chain(&self.parquet);
        let files = files.chain([&self.svg, &self.png]);
        lines.extend(files.map(|path| format!("  {}", path.display())));
        lines.join("\n")
    }
}

/// Draws and writes the figure.
pub(super) fn write(
    definition: &Definition,
    done: &Scanned,
    options: &Options,
    conditions: &Conditions,
) -> Result<Report> {
    let csv = options.out.join(format!("{}.csv", definition.id));
    if csv != done.csv {
        fs::copy(&done.csv, &csv).with_context(|| format!("writing {}", csv.display()))?;
    }
    // A model computes the same on any host.
    let warnings = match definition.drawing.is_model() {
        true => Vec::new(),
        false => done.warnings.clone(),
    };
    let runs = done.repeats;
    let bars = if runs > 1 {
        ", bars from the smallest to the largest"
    } else {
        ""
    };
    let what = match definition.drawing {
        Drawing::Model(_) => format!("Median of {runs} seed(s)"),
        Drawing::Whole(_) => format!("{runs} run(s)"),
        _ => format!("Median of {runs} run(s){bars}"),
    };
    let mut caption = vec![
        format!("{what}. {}", definition.remark),
        format!("Published, on other hardware: {}.", definition.published),
    ];
    if !definition.drawing.is_model() {
        caption.push(format!(
            "{}, {} build.",
            conditions.line(),
            conditions.profile
        ));
    }
    if !warnings.is_empty() {
        caption.push(format!("Mind: {}.", warnings.join("; ")));
    }
    caption.extend(done.skipped.iter().map(ToString::to_string));
    if done.interrupted {
        caption.push("INTERRUPTED: not all points were measured.".to_owned());
    }
    let title = format!("{}  {}", definition.id, definition.title);
    let [svg, png] = match definition.drawing {
        Drawing::Charts(charts) | Drawing::Whole(charts) => {
            let picture = Picture {
                title,
                charts: charts(&done.rows),
                caption,
            };
            plot::write(&picture, &options.out, definition.id)?
        }
        Drawing::Bars(bars) | Drawing::Model(bars) => {
            let bars = Bars {
                title,
                caption,
                ..bars(&done.rows)
            };
            plot::write_bars(&bars, &options.out, definition.id)?
        }
        Drawing::Flame(flame) => {
            let flame = Flame {
                title,
                caption,
                ..flame(&done.rows)
            };
            plot::write_flame(&flame, &options.out, definition.id)?
        }
    };
    let report = Report {
        id: definition.id,
        title: definition.title,
        published: definition.published,
        comparison: (definition.compare)(&done.rows),
        remark: definition.remark,
        is_model: definition.drawing.is_model(),
        conditions: conditions.clone(),
        runs,
        rows_with_residual: broken(&done.rows),
        warnings,
        skipped: done.skipped.clone(),
        interrupted: done.interrupted,
        csv,
        parquet: write_parquet(definition, &done.rows, &options.out)?,
        svg,
        png,
    };
    let path = options.out.join(format!("{}.json", definition.id));
    let json = serde_json::to_string_pretty(&report).context("writing a report")?;
    fs::write(&path, json).with_context(|| format!("writing {}", path.display()))?;
    Ok(report)
}

fn write_parquet(definition: &Definition, rows: &[Row], out: &Path) -> Result<Option<PathBuf>> {
    if rows.is_empty() {
        return Ok(None);
    }
    let path = out.join(format!("{}.parquet", definition.id));
    parquet::write(&path, &columns_of(rows), rows)?;
    Ok(Some(path))
}

/// Writes one page with all figures.
pub(super) fn write_page(reports: &[Report], out: &Path) -> Result<()> {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;");
    let mut page = String::from(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Forebay: figures</title>\n\
         <style>body{font:15px/1.5 sans-serif;max-width:1100px;margin:2em auto;padding:0 1em}img{max-width:100%}pre{white-space:pre-wrap}</style>\n\
         <h1>Published figures, measured on this machine or computed by a model</h1>\n",
    );
    for report in reports {
        page += &format!(
            "<h2 id=\"{0}\">{0}: {1}</h2>\n<img src=\"{0}.svg\" alt=\"{1}\">\n<pre>{2}</pre>\n<p><a href=\"{0}.csv\">rows</a> · <a href=\"{0}.png\">PNG</a></p>\n",
            report.id,
            escaped(report.title),
            escaped(
                &report
                    .comparison
                    .iter()
                    .cloned()
                    .chain(report.skipped.iter().map(ToString::to_string))
                    .collect::<Vec<_>>()
                    .join("\n")
            ),
        );
    }
    page += "</html>\n";
    let path = out.join("index.html");
    fs::write(&path, page).with_context(|| format!("writing {}", path.display()))
}
