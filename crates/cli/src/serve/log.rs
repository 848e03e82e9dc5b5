//! The log of a running command.

use tracing_subscriber::EnvFilter;

use super::args::LogFormat;
use crate::exit::Failure;

/// Log lines go to standard error; standard output belongs to whoever waits for the first line.
pub(crate) fn start(level: &str, format: LogFormat) -> Result<(), Failure> {
    let log = tracing_subscriber::fmt().with_env_filter(filter(level)?).with_writer(std::io::stderr);
    match format {
        LogFormat::Json => log.json().init(),
        LogFormat::Text => {
            let colours = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
            log.with_ansi(colours).init();
        }
    }
    Ok(())
}

/// Refuses what names no level and no filter.
pub(crate) fn check(level: &str) -> Result<(), Failure> {
    filter(level).map(drop)
}

/// A bare word in a filter means a crate of that name, so a mistyped level would silence the log without a word.
fn filter(text: &str) -> Result<EnvFilter, Failure> {
    let refuse = |why: String| Failure::usage(format!("--log `{text}` is no level and no filter: {why}"));
    match text.split(',').map(str::trim).find(|part| !is_meant(part)) {
        Some(word) => Err(refuse(format!(
            "`{word}` is none of {}; a crate's level is written CRATE=LEVEL",
            LOG_LEVELS.join(", ")
        ))),
        None => EnvFilter::try_new(text).map_err(|error| refuse(error.to_string())),
    }
}

const LOG_LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Whether a part of a filter is a level, a target of ours, or so written that it cannot be a mistyped level.
fn is_meant(part: &str) -> bool {
    LOG_LEVELS.iter().any(|level| level.eq_ignore_ascii_case(part))
        || part.starts_with("unavez")
        || part.contains(['=', '['])
        || part.contains("::")
}
