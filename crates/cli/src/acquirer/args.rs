//! The flags of `unavez acquirer`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use unavez_payments::acquirer::http::BaseUrl;
use unavez_payments::acquirer::sandbox::{Behaviour, Dedupe, Lookup, Webhooks};

use crate::duration;
use crate::serve::{Listen, LogFlags, StoreLocation};

/// Flags of `unavez acquirer`.
#[derive(Args, Debug)]
#[command(after_help = "\
It approves whoever asks and moves no money. `payment_method` says how a payment goes:
  tok_approve, tok_decline               decided at once
  tok_pending, tok_pending_decline       decided after 2 s, told by webhook
  tok_lost                               executed, and never answered
  tok_error_after, tok_error             answered 500; executed, respectively not
  tok_slow_MS                            executed, and answered so many milliseconds later

Examples:
  unavez acquirer
  unavez serve --acquirer http://127.0.0.1:9090
      a service that charges through it
  unavez acquirer --dedupe off
      executes every request it gets: whoever sends twice has charged twice
  curl -s http://127.0.0.1:9090/stats
      how often each operation was executed

When it is ready, `listening on http://IP:PORT` is the first line on standard output.
SIGTERM or Ctrl-C: stop accepting, finish what runs, exit 0; a second one ends it at once.")]
pub(crate) struct AcquirerArgs {
    /// Address and port; port 0 takes any free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:9090", help_heading = "Where")]
    pub(super) listen: Listen,

    /// sqlite:PATH, or memory: which is forgotten with the process
    #[arg(long, value_name = "STORE", default_value = "sqlite:acquirer.db", help_heading = "Where")]
    pub(super) store: StoreLocation,

    /// How long to wait for another process to let go of the database file
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse, help_heading = "Where")]
    pub(super) lock_wait: Duration,

    /// Where decisions about pending payments are posted; https, or http on this machine. Without it nobody is told
    #[arg(long, value_name = "URL", help_heading = "Webhooks")]
    pub(super) webhook_url: Option<BaseUrl>,

    /// Signs webhooks, shared with the receiver; one secret a line: whsec_BASE64, or TENANT whsec_BASE64
    #[arg(long, value_name = "FILE", help_heading = "Webhooks")]
    pub(super) webhook_secret_file: Option<PathBuf>,

    /// Deliver each once, twice, or reversed: the decision first, and then one that still says pending
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        default_value = "once",
        hide_possible_values = true,
        help_heading = "Webhooks"
    )]
    pub(super) webhooks: WebhooksRule,

    /// How long ids of requests are remembered: forever, a duration such as 24h, or off
    #[arg(long, value_name = "HOW LONG", default_value = "forever", help_heading = "Behaviour")]
    pub(super) dedupe: DedupeRule,

    /// How long an executed operation is not found by questions
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse, help_heading = "Behaviour")]
    pub(super) visibility_delay: Duration,

    /// Whether questions are answered: ok or down
    #[arg(
        long,
        value_enum,
        value_name = "STATE",
        default_value = "ok",
        hide_possible_values = true,
        help_heading = "Behaviour"
    )]
    pub(super) lookup: LookupRule,

    /// How long every request is on its way; 0s for measurements
    #[arg(long, value_name = "DURATION", default_value = "20ms", value_parser = duration::parse, help_heading = "Behaviour")]
    pub(super) latency: Duration,

    #[command(flatten)]
    pub(super) log: LogFlags,
}

/// [`Webhooks`] as a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum WebhooksRule {
    /// Until it is taken
    Once,
    /// Until it is taken twice
    Twice,
    /// The decision first
    Reversed,
}

/// [`Lookup`] as a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LookupRule {
    /// Questions are answered
    Ok,
    /// They are refused
    Down,
}

/// [`Dedupe`] as a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DedupeRule(Dedupe);

impl FromStr for DedupeRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "forever" => Ok(Self(Dedupe::Forever)),
            "off" => Ok(Self(Dedupe::Off)),
            window => duration::parse_positive(window)
                .map(|window| Self(Dedupe::For(window)))
                .map_err(|why| format!("{why}; or forever, or off")),
        }
    }
}

impl AcquirerArgs {
    pub(super) fn behaviour(&self) -> Behaviour {
        Behaviour {
            dedupe: self.dedupe.0,
            visibility_delay: self.visibility_delay,
            lookup: match self.lookup {
                LookupRule::Ok => Lookup::Ok,
                LookupRule::Down => Lookup::Down,
            },
            latency: self.latency,
            webhooks: match self.webhooks {
                WebhooksRule::Once => Webhooks::Once,
                WebhooksRule::Twice => Webhooks::Twice,
                WebhooksRule::Reversed => Webhooks::Reversed,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_remembered_for_ever_for_a_while_or_not() {
        let parse = |text: &str| text.parse::<DedupeRule>().map(|rule| rule.0);
        assert_eq!(parse("forever"), Ok(Dedupe::Forever));
        assert_eq!(parse("24h"), Ok(Dedupe::For(Duration::from_secs(86_400))));
        assert_eq!(parse("off"), Ok(Dedupe::Off));
        for text in ["", "0s", "on", "24"] {
            let refused = parse(text).expect_err(text);
            assert!(refused.ends_with("or forever, or off"), "{text}: {refused}");
        }
    }
}
