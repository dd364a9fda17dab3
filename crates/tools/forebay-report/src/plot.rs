//! Pictures: a chart becomes a scene of shapes, a scene becomes SVG or PNG. No system font is needed.

mod axis;
mod bars;
mod chart;
mod flame;
mod font;
mod legend;
mod png;
mod scene;
mod series;
mod style;
mod svg;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub use axis::Scale;
pub use bars::{Bar, Bars, Group};
pub use chart::{Axis, Chart, Picture};
pub use flame::Flame;
pub use series::{Form, Point, Series};
pub(crate) use svg::escaped;

/// Writes `picture` as `STEM.svg` and `STEM.png` into `directory`; tells both paths.
///
/// # Errors
/// A file cannot be written.
pub fn write(picture: &Picture, directory: &Path, stem: &str) -> Result<[PathBuf; 2]> {
    write_scene(&chart::layout(picture), directory, stem)
}

/// `picture` as SVG, for a page that holds it.
#[must_use]
pub fn svg(picture: &Picture) -> String {
    svg::render(&chart::layout(picture))
}

/// The same of a flame graph.
///
/// # Errors
/// A file cannot be written.
pub fn write_flame(flame: &Flame, directory: &Path, stem: &str) -> Result<[PathBuf; 2]> {
    write_scene(&flame::layout(flame), directory, stem)
}

/// The same of bars.
///
/// # Errors
/// A file cannot be written.
pub fn write_bars(bars: &Bars, directory: &Path, stem: &str) -> Result<[PathBuf; 2]> {
    write_scene(&bars::layout(bars), directory, stem)
}

fn write_scene(scene: &scene::Scene, directory: &Path, stem: &str) -> Result<[PathBuf; 2]> {
    let paths = ["svg", "png"].map(|extension| directory.join(format!("{stem}.{extension}")));
    fs::write(&paths[0], svg::render(scene))
        .with_context(|| format!("writing {}", paths[0].display()))?;
    fs::write(&paths[1], png::render(scene)?)
        .with_context(|| format!("writing {}", paths[1].display()))?;
    Ok(paths)
}
