//! The log of a running command.

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

use crate::exit::Failure;

/// How a command that runs on and on logs.
#[derive(Args, Clone, Debug)]
pub(crate) struct LogFlags {
    /// What is logged to standard error: error, warn, info, debug, trace, or a filter such as `info,unavez_store=debug`
    #[arg(long, value_name = "LEVEL", default_value = "info", help_heading = "Log")]
    log: String,

    /// text, or json: one object a line
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        default_value = "text",
        hide_possible_values = true,
        help_heading = "Log"
    )]
    log_format: LogFormat,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// For people
    Text,
    /// One object a line
    Json,
}

impl LogFlags {
    /// Log lines go to standard error; standard output belongs to whoever waits for the first line.
    pub(crate) fn start(&self) -> Result<(), Failure> {
        let log = tracing_subscriber::fmt().with_env_filter(filter(&self.log)?).with_writer(std::io::stderr);
        match self.log_format {
            LogFormat::Json => log.json().init(),
            LogFormat::Text => {
                let colours =
                    anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
                log.with_ansi(colours).init();
            }
        }
        Ok(())
    }

    /// Refuses what names no level and no filter.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        filter(&self.log).map(drop)
    }
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
