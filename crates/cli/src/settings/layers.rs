//! Environment and file laid below the flags of a clap command.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, Command};

use super::ConfigFile;
use super::nearest::nearest;
use crate::exit::Failure;

/// What every environment variable of ours begins with.
const PREFIX: &str = "UNAVEZ_";

/// The variable that names the configuration file, like `--config`.
const CONFIG_VARIABLE: &str = "UNAVEZ_CONFIG";

/// One option of one subcommand, by all its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The subcommand: `["lab", "fleet"]`.
    pub(crate) path: Vec<String>,
    /// The flag without its dashes, which is also the key in the file.
    pub(crate) key: String,
}

impl Setting {
    /// The setting an argument stands for; none for positional and global arguments and for `--help`.
    pub(super) fn of(path: &[String], arg: &Arg) -> Option<Self> {
        let key = arg.get_long()?;
        let own = !arg.is_global_set() && key != "help" && key != "version";
        own.then(|| Self { path: path.to_vec(), key: key.to_owned() })
    }

    /// The section of the file: `lab.fleet`.
    pub(crate) fn section(&self) -> String {
        section_name(&self.path)
    }

    /// The environment variable: `UNAVEZ_LAB_FLEET_SEED`.
    pub(crate) fn variable(&self) -> String {
        let names = self.path.iter().chain([&self.key]).map(|name| name.to_uppercase().replace('-', "_"));
        format!("{PREFIX}{}", names.collect::<Vec<_>>().join("_"))
    }
}

/// Where the value in force comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Source {
    /// Given on the command line.
    Flag,
    /// An environment variable.
    Environment,
    /// The configuration file.
    File,
    /// Nobody said anything.
    Default,
}

/// What lies below the flags.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    pub(crate) file: Option<ConfigFile>,
    environment: BTreeMap<String, String>,
}

impl Layers {
    /// Reads the file the arguments or the environment name and checks every value in both against its argument.
    pub(crate) fn read(
        root: &Command,
        arguments: &[OsString],
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, Failure> {
        let environment = ours(environment)?;
        let named = config_flag(arguments).or_else(|| environment.get(CONFIG_VARIABLE).map(PathBuf::from));
        let file = ConfigFile::find(named.as_deref(), root)?;
        let layers = Self { file, environment };
        layers.check_values(root)?;
        Ok(layers)
    }

    /// The command with environment and file values in place of its arguments' defaults.
    pub(crate) fn apply(&self, root: Command) -> Command {
        self.apply_below(root, &[])
    }

    fn apply_below(&self, command: Command, path: &[String]) -> Command {
        let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
        let command = command.mut_args(|arg| {
            match Setting::of(path, &arg).and_then(|setting| self.below_flags(&setting, takes_many(&arg))) {
                Some((_, values)) => arg.required(false).default_values(values),
                None => arg,
            }
        });
        names.into_iter().fold(command, |command, name| {
            let path = below(path, &name);
            command.mut_subcommand(name, |sub| self.apply_below(sub, &path))
        })
    }

    /// Where a value of the applied command comes from.
    pub(crate) fn source(&self, setting: &Setting, seen: Option<ValueSource>) -> Source {
        match seen {
            Some(ValueSource::CommandLine) => Source::Flag,
            _ => self.below_flags(setting, true).map_or(Source::Default, |(source, _)| source),
        }
    }

    /// Variables that begin like one of our sections and name nothing, each with the nearest that exists.
    pub(crate) fn unknown_variables(&self, root: &Command) -> Vec<(String, String)> {
        let known: Vec<String> = settings_of(root).iter().map(|(setting, _)| setting.variable()).collect();
        let sections: Vec<String> = known.iter().filter_map(|name| section_prefix(name, root)).collect();
        let unknown = self.environment.keys().filter(|name| {
            *name != CONFIG_VARIABLE
                && !known.contains(name)
                && sections.iter().any(|prefix| name.starts_with(prefix))
        });
        unknown
            .filter_map(|name| {
                Some((name.clone(), nearest(name, known.iter().map(String::as_str))?.to_owned()))
            })
            .collect()
    }

    fn below_flags(&self, setting: &Setting, many: bool) -> Option<(Source, Vec<String>)> {
        if let Some(value) = self.environment.get(&setting.variable()) {
            let values =
                if many { value.split(',').map(str::to_owned).collect() } else { vec![value.clone()] };
            return Some((Source::Environment, values));
        }
        let values = self.file.as_ref()?.values(setting)?;
        Some((Source::File, values))
    }

    /// Values of the environment and the file meet their argument's parser here, where the error can say where
    /// they stand; clap would blame a flag that nobody gave.
    fn check_values(&self, root: &Command) -> Result<(), Failure> {
        for (setting, arg) in settings_of(root) {
            let Some((source, values)) = self.below_flags(&setting, takes_many(&arg)) else { continue };
            for value in values {
                check_value(&arg, &value).map_err(|reason| {
                    let place = self.place(&setting, source);
                    Failure::usage(format!("{place}: `{value}` is not accepted: {reason}"))
                })?;
            }
        }
        Ok(())
    }

    fn place(&self, setting: &Setting, source: Source) -> String {
        match (source, &self.file) {
            (Source::File, Some(file)) => {
                format!("{}: `{}` in [{}]", file.path.display(), setting.key, setting.section())
            }
            _ => format!("environment variable {}", setting.variable()),
        }
    }
}

/// Every setting of every subcommand, in the order of the help.
pub(crate) fn settings_of(root: &Command) -> Vec<(Setting, Arg)> {
    fn collect(command: &Command, path: &[String], found: &mut Vec<(Setting, Arg)>) {
        found.extend(command.get_arguments().filter_map(|arg| Some((Setting::of(path, arg)?, arg.clone()))));
        for sub in command.get_subcommands() {
            collect(sub, &below(path, sub.get_name()), found);
        }
    }
    let mut found = Vec::new();
    collect(root, &[], &mut found);
    found
}

/// The path of a subcommand of the command at `path`.
pub(super) fn below(path: &[String], name: &str) -> Vec<String> {
    path.iter().map(String::as_str).chain([name]).map(str::to_owned).collect()
}

pub(super) fn section_name(path: &[String]) -> String {
    path.join(".")
}

/// A flag without a value.
pub(super) fn is_switch(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

/// A flag that may be repeated.
pub(super) fn takes_many(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

/// `UNAVEZ_API_KEYS_` for a variable of one of that command's settings.
fn section_prefix(variable: &str, root: &Command) -> Option<String> {
    root.get_subcommands()
        .map(|sub| format!("{PREFIX}{}_", sub.get_name().to_uppercase().replace('-', "_")))
        .find(|prefix| variable.starts_with(prefix.as_str()))
}

/// Lets the argument's own parser judge a value, and takes only the reason from its refusal.
fn check_value(arg: &Arg, value: &str) -> Result<(), String> {
    if is_switch(arg) {
        return match value {
            "true" | "false" => Ok(()),
            _ => Err("expected true or false".to_owned()),
        };
    }
    let flag = arg.get_long().unwrap_or_default();
    let alone = Command::new("").no_binary_name(true).arg(arg.clone().required(false));
    let refused = match alone.try_get_matches_from([format!("--{flag}={value}")]) {
        Ok(_) => return Ok(()),
        Err(refused) => refused,
    };
    if let Some(source) = refused.source() {
        return Err(source.to_string());
    }
    match refused.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(valid)) if !valid.is_empty() => {
            Err(format!("expected one of {}", valid.join(", ")))
        }
        _ => Err("a value is required".to_owned()),
    }
}

/// The variables that begin with our prefix.
fn ours(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<BTreeMap<String, String>, Failure> {
    environment
        .into_iter()
        .filter_map(|(name, value)| {
            Some((name.to_str().filter(|name| name.starts_with(PREFIX))?.to_owned(), value))
        })
        .map(|(name, value)| match value.into_string() {
            Ok(value) => Ok((name, value)),
            Err(_) => Err(Failure::usage(format!("environment variable {name}: the value is not UTF-8"))),
        })
        .collect()
}

/// The file named by `--config`. It is needed before clap can parse, since it changes what clap sees.
fn config_flag(arguments: &[OsString]) -> Option<PathBuf> {
    let mut arguments = arguments.iter().take_while(|argument| *argument != "--");
    while let Some(argument) = arguments.next() {
        if argument == "--config" {
            return arguments.next().map(PathBuf::from);
        }
        if let Some(path) = argument.to_string_lossy().strip_prefix("--config=") {
            return Some(PathBuf::from(path));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use clap::value_parser;

    use super::*;
    use crate::duration;

    fn root() -> Command {
        let arg = |id: &'static str| Arg::new(id).long(id);
        let serve = Command::new("serve")
            .arg(arg("listen").default_value("127.0.0.1:8080"))
            .arg(arg("response-ttl").default_value("24h").value_parser(duration::parse))
            .arg(arg("tls-cert"));
        let fleet = Command::new("fleet")
            .arg(arg("seed").default_value("42").value_parser(value_parser!(u64)))
            .arg(arg("break").action(ArgAction::Append).value_parser(["no-fence", "key-per-attempt"]))
            .arg(arg("quiet").action(ArgAction::SetTrue))
            .arg(arg("url").required(true))
            .arg(Arg::new("name"));
        Command::new("unavez")
            .arg(arg("config").global(true))
            .subcommand(serve)
            .subcommand(Command::new("lab").subcommand_required(true).subcommand(fleet))
    }

    fn layers(file: &str, environment: &[(&str, &str)]) -> Result<Layers, String> {
        let root = root();
        let environment =
            environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let file =
            ConfigFile::parse("unavez.toml".as_ref(), file, &root).map_err(|failure| failure.to_string())?;
        let layers = Layers { file: Some(file), environment };
        layers.check_values(&root).map_err(|failure| failure.to_string())?;
        Ok(layers)
    }

    /// The value in force of `serve`'s response TTL, and its source.
    fn response_ttl(file: &str, environment: &[(&str, &str)], arguments: &[&str]) -> (String, Source) {
        let layers = layers(file, environment).expect("a valid configuration");
        let argv = ["unavez", "serve"].iter().chain(arguments);
        let matches = layers.apply(root()).try_get_matches_from(argv).expect("valid arguments");
        let (_, serve) = matches.subcommand().expect("a subcommand");
        let value =
            serve.get_raw("response-ttl").and_then(|mut values| values.next()).expect("it has a default");
        let setting = Setting { path: vec!["serve".to_owned()], key: "response-ttl".to_owned() };
        (value.to_string_lossy().into_owned(), layers.source(&setting, serve.value_source("response-ttl")))
    }

    #[test]
    fn flag_beats_environment_beats_file_beats_default() {
        let file = "[serve]\nresponse-ttl = \"2h\"";
        let environment = [("UNAVEZ_SERVE_RESPONSE_TTL", "3h")];
        let flag = ["--response-ttl", "4h"];
        assert_eq!(response_ttl("", &[], &[]), ("24h".to_owned(), Source::Default));
        assert_eq!(response_ttl(file, &[], &[]), ("2h".to_owned(), Source::File));
        assert_eq!(response_ttl(file, &environment, &[]), ("3h".to_owned(), Source::Environment));
        assert_eq!(response_ttl(file, &environment, &flag), ("4h".to_owned(), Source::Flag));
        assert_eq!(response_ttl("", &[], &flag), ("4h".to_owned(), Source::Flag));
    }

    #[test]
    fn nested_commands_have_nested_names_and_every_kind_of_flag_is_read() {
        let file =
            "[lab.fleet]\nseed = 7\nbreak = [\"no-fence\", \"key-per-attempt\"]\nquiet = true\nurl = \"u\"";
        let parse = |layers: Layers| {
            let matches =
                layers.apply(root()).try_get_matches_from(["unavez", "lab", "fleet"]).expect("valid");
            let (_, lab) = matches.subcommand().expect("lab");
            lab.subcommand().expect("fleet").1.clone()
        };
        let from_file = parse(layers(file, &[]).expect("valid"));
        let environment = [
            ("UNAVEZ_LAB_FLEET_SEED", "7"),
            ("UNAVEZ_LAB_FLEET_BREAK", "no-fence,key-per-attempt"),
            ("UNAVEZ_LAB_FLEET_QUIET", "true"),
            ("UNAVEZ_LAB_FLEET_URL", "u"),
        ];
        for matches in [from_file, parse(layers("", &environment).expect("valid"))] {
            assert_eq!(matches.get_one::<u64>("seed"), Some(&7));
            assert_eq!(matches.get_many::<String>("break").map(Iterator::count), Some(2));
            assert!(matches.get_flag("quiet"));
            assert_eq!(matches.get_one::<String>("url").map(String::as_str), Some("u"));
        }
    }

    #[test]
    fn mistakes_in_the_file_name_the_place_and_the_nearest_known_name() {
        let cases = [
            ("[serv]", "unknown section [serv]; the nearest known one is [serve]"),
            ("[lab.flet]", "unknown section [lab.flet]; the nearest known one is [lab.fleet]"),
            ("[serve]\nlistn = 1", "unknown key `listn` in [serve]; the nearest known one is `listen`"),
            ("[serve]\nresponse_ttl = \"1h\"", "the nearest known one is `response-ttl`"),
            ("[serve]\nhelp = true", "unknown key `help`"),
            ("[lab.fleet]\nname = \"x\"", "unknown key `name` in [lab.fleet]"),
            ("[lab.fleet]\nconfig = \"x\"", "unknown key `config`"),
            ("[lab]\nseed = 1", "unknown section [lab.seed]; the nearest known one is [lab.fleet]"),
            ("[serve.x]", "unknown section [serve.x]"),
            ("listen = \"x\"", "the key `listen` stands outside a section; write it below [serve]"),
            ("serve = 1", "`serve` is a section: write [serve]"),
            ("[serve]\nlisten = [\"a\"]", "`listen` in [serve] takes one value, not an array"),
            ("[serve]\nlisten = {a = 1}", "`listen` in [serve] takes a value, not a section"),
            ("[lab.fleet]\nbreak = [[1]]", "an array of plain values"),
            ("[lab.fleet]\nquiet = \"yes\"", "`quiet` in [lab.fleet] is true or false, not \"yes\""),
            (
                "[serve]\nresponse-ttl = 24",
                "`response-ttl` in [serve]: `24` is not accepted: `24` has no unit",
            ),
            (
                "[lab.fleet]\nbreak = [\"nothing\"]",
                "`nothing` is not accepted: expected one of no-fence, key-per-attempt",
            ),
            ("[lab.fleet]\nseed = -1", "`-1` is not accepted"),
            ("[serve", "TOML parse error"),
        ];
        for (file, reason) in cases {
            let refused = layers(file, &[]).expect_err(file);
            assert!(refused.starts_with("unavez.toml: ") && refused.contains(reason), "{file}: {refused}");
        }
    }

    #[test]
    fn mistakes_in_the_environment_name_the_variable() {
        let cases = [
            (("UNAVEZ_SERVE_RESPONSE_TTL", "soon"), "a whole number is expected"),
            (("UNAVEZ_LAB_FLEET_QUIET", "1"), "expected true or false"),
            (("UNAVEZ_LAB_FLEET_SEED", ""), "not accepted"),
        ];
        for ((name, value), reason) in cases {
            let refused = layers("", &[(name, value)]).expect_err(name);
            assert!(refused.starts_with(&format!("environment variable {name}: ")), "{refused}");
            assert!(refused.contains(reason), "{refused}");
        }
    }

    #[test]
    fn variables_that_name_nothing_are_found_and_others_things_are_left_alone() {
        let environment = [
            ("UNAVEZ_SERVE_LISTN", "x"),
            ("UNAVEZ_SERVE_LISTEN", "x"),
            ("UNAVEZ_CONFIG", "x"),
            ("UNAVEZ_SERVICE_HOST", "x"),
            ("UNAVEZ_PORT", "x"),
        ];
        let unknown = layers("", &environment).expect("valid").unknown_variables(&root());
        assert_eq!(unknown, [("UNAVEZ_SERVE_LISTN".to_owned(), "UNAVEZ_SERVE_LISTEN".to_owned())]);
    }

    #[test]
    fn the_file_is_named_by_flag_before_environment() {
        let named =
            |arguments: &[&str]| config_flag(&arguments.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(named(&["unavez", "serve"]), None);
        assert_eq!(named(&["unavez", "--config", "a.toml", "serve"]), Some("a.toml".into()));
        assert_eq!(named(&["unavez", "serve", "--config=b.toml"]), Some("b.toml".into()));
        assert_eq!(named(&["unavez", "config", "--", "--config=c.toml"]), None);
    }

    #[test]
    fn a_named_file_has_to_exist() {
        let arguments = ["unavez", "--config", "/nowhere/unavez.toml"].map(OsString::from);
        let refused = Layers::read(&root(), &arguments, []).expect_err("there is none");
        assert!(refused.to_string().contains("/nowhere/unavez.toml: cannot be read"), "{refused}");
    }
}
