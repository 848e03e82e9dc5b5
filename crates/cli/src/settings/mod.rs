//! Where a setting's value comes from: flag, then environment, then `unavez.toml`, then its default.
//!
//! Every option is declared once, as a clap argument of its subcommand. Its other two names follow from that:
//!
//! | flag | environment | file |
//! |---|---|---|
//! | `unavez serve --response-ttl 1h` | `UNAVEZ_SERVE_RESPONSE_TTL=1h` | `[serve]` `response-ttl = "1h"` |
//! | `unavez lab fleet --seed 7` | `UNAVEZ_LAB_FLEET_SEED=7` | `[lab.fleet]` `seed = 7` |
//!
//! Rules:
//!
//! 1. The file is `unavez.toml` in the working directory if there is one, or the one named by `--config`
//!    (`UNAVEZ_CONFIG`), which then has to exist.
//! 2. The whole file is checked whatever the subcommand: an unknown section or key is an error that names the
//!    nearest known one, and every value has to be one its flag would take.
//! 3. An environment variable that looks like ours and names nothing is a warning: on some platforms others create
//!    variables with such names (a Kubernetes service called `unavez` does). `unavez config --check` makes it an error.
//! 4. A repeatable flag is an array in the file and comma-separated in the environment; `true` and `false` switch a
//!    flag without value.
//! 5. What comes from environment and file replaces the argument's default, so clap itself decides precedence and
//!    parses every value the same way. Rules between arguments (`requires`, `conflicts_with`) are therefore not
//!    used: clap would not see such values as given. Commands check them on the parsed result.

mod file;
mod layers;
mod nearest;
pub(crate) mod show;

pub(crate) use file::ConfigFile;
pub(crate) use layers::{Layers, Setting, Source, settings_of};
pub(crate) use nearest::near;
