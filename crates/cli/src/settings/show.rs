//! `unavez config`: every value in force and where it came from; `--check`; `--example`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;

use clap::{Arg, ArgMatches, Args, Command};
use serde::Serialize;

use super::{Layers, Setting, Source, settings_of};
use crate::exit::{Exit, Failure};
use crate::output::{Output, columns, print_json, print_line};

/// Flags of `unavez config`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unavez config                            every setting of every subcommand
  unavez config serve                      those of `serve`
  unavez config serve -- --lock-wait 5s    as if the flags after `--` were given to `serve`
  unavez config --check                    refuse timings that contradict each other, and
                                           environment variables that name nothing
  unavez config --example > unavez.toml    a file that shows every key with default and meaning")]
pub(crate) struct ConfigArgs {
    /// Only this section, such as `serve` or `lab.fleet`
    #[arg(value_name = "SECTION")]
    section: Option<String>,

    /// Check that the settings fit together; exit 2 if they do not
    #[arg(long)]
    check: bool,

    /// Print an example of unavez.toml: every key with its default and meaning
    #[arg(long)]
    example: bool,

    #[command(flatten)]
    output: Output,

    /// Flags of the named section, shown as if they were given
    #[arg(last = true, value_name = "FLAGS")]
    flags: Vec<OsString>,
}

/// One line of the answer.
#[derive(Debug, Serialize)]
struct Shown {
    section: String,
    key: String,
    value: Option<String>,
    source: Source,
    variable: String,
}

#[derive(Serialize)]
struct Document<'a> {
    file: Option<String>,
    settings: &'a [Shown],
}

/// Runs `unavez config`. `check` judges the settings of a section that parsed.
pub(crate) fn run(
    args: &ConfigArgs,
    layers: &Layers,
    root: &Command,
    check: impl Fn(&str, &ArgMatches) -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    if args.example {
        print_line(example(root).trim_end())?;
        return Ok(Exit::Done);
    }
    let sections = sections(root, args)?;
    let mut shown = Vec::new();
    for (section, settings) in &sections {
        let matches = parse_section(layers, root, &settings[0].0.path, &args.flags)?;
        if args.check {
            check(section, &matches)?;
        }
        shown.extend(settings.iter().map(|(setting, arg)| show(layers, setting, arg, &matches)));
    }
    if args.check {
        refuse_unknown_variables(layers, root)?;
    }
    print(args, layers, &shown)?;
    Ok(Exit::Done)
}

type Sections = Vec<(String, Vec<(Setting, Arg)>)>;

fn sections(root: &Command, args: &ConfigArgs) -> Result<Sections, Failure> {
    let mut sections: Sections = Vec::new();
    for (setting, arg) in settings_of(root) {
        let name = setting.section();
        match sections.last_mut() {
            Some((last, settings)) if *last == name => settings.push((setting, arg)),
            _ => sections.push((name, vec![(setting, arg)])),
        }
    }
    let Some(wanted) = &args.section else {
        if args.flags.is_empty() {
            return Ok(sections);
        }
        return Err(Failure::usage(
            "flags after `--` need the section they belong to: unavez config serve -- …",
        ));
    };
    let names = sections.iter().map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    sections.retain(|(name, _)| name == wanted || name.starts_with(&format!("{wanted}.")));
    if sections.is_empty() {
        return Err(Failure::usage(format!("no section is called `{wanted}`; there are {names}")));
    }
    if sections.len() > 1 && !args.flags.is_empty() {
        return Err(Failure::usage(format!(
            "flags after `--` need one section, and `{wanted}` holds several"
        )));
    }
    Ok(sections)
}

/// Parses a section as if its subcommand had been called, without what it requires.
fn parse_section(
    layers: &Layers,
    root: &Command,
    path: &[String],
    flags: &[OsString],
) -> Result<ArgMatches, Failure> {
    let mut command = layers.apply(root.clone());
    command = lift_requirements(command);
    let argv = [OsString::from("unavez")]
        .into_iter()
        .chain(path.iter().map(OsString::from))
        .chain(flags.iter().cloned());
    let matches = command.try_get_matches_from(argv).map_err(|refused| {
        let text = refused.to_string();
        let first = text.lines().next().unwrap_or_default();
        Failure::usage(first.trim_start_matches("error: ").to_owned())
    })?;
    let mut inner = &matches;
    while let Some((_, below)) = inner.subcommand() {
        inner = below;
    }
    Ok(inner.clone())
}

fn lift_requirements(command: Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let command = command.mut_args(|arg| arg.required(false));
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, lift_requirements))
}

fn show(layers: &Layers, setting: &Setting, arg: &Arg, matches: &ArgMatches) -> Shown {
    let id = arg.get_id().as_str();
    let values: Option<Vec<_>> =
        matches.get_raw(id).map(|values| values.map(|value| value.to_string_lossy().into_owned()).collect());
    Shown {
        section: setting.section(),
        key: setting.key.clone(),
        value: values.map(|values| values.join(",")),
        source: layers.source(setting, matches.value_source(id)),
        variable: setting.variable(),
    }
}

fn refuse_unknown_variables(layers: &Layers, root: &Command) -> Result<(), Failure> {
    match layers.unknown_variables(root).first() {
        Some((name, nearest)) => Err(Failure::usage(format!(
            "environment variable {name} names no setting; the nearest known one is {nearest}"
        ))),
        None => Ok(()),
    }
}

fn print(args: &ConfigArgs, layers: &Layers, settings: &[Shown]) -> Result<(), Failure> {
    let file = layers.file.as_ref().map(|file| file.path.display().to_string());
    if args.output.is_json() {
        return print_json(&Document { file, settings });
    }
    let mut by_section: BTreeMap<&str, Vec<&Shown>> = BTreeMap::new();
    for setting in settings {
        by_section.entry(&setting.section).or_default().push(setting);
    }
    let mut text = match file {
        Some(file) => format!("file: {file}\n"),
        None => "file: none (no unavez.toml here, no --config)\n".to_owned(),
    };
    for (section, settings) in by_section {
        let rows = settings.iter().map(|setting| {
            let value = setting.value.as_deref().unwrap_or("(unset)");
            [format!("  {}", setting.key), value.to_owned(), source_name(setting).to_owned()]
        });
        let _ = write!(text, "\n[{section}]\n{}", columns(&rows.collect::<Vec<_>>()));
    }
    if args.check {
        text.push_str("\nthe settings fit together\n");
    }
    print_line(text.trim_end())
}

fn source_name(setting: &Shown) -> &str {
    match setting.source {
        Source::Flag => "flag",
        Source::Environment => &setting.variable,
        Source::File => "file",
        Source::Default => "default",
    }
}

/// The text of `unavez.toml` that shows every key, each commented out with its default.
pub(crate) fn example(root: &Command) -> String {
    let mut text = String::from(EXAMPLE_HEAD);
    let mut section = String::new();
    for (setting, arg) in settings_of(root) {
        if setting.section() != section {
            section = setting.section();
            let _ = write!(text, "\n\n[{section}]\n");
        }
        let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
        text.push('\n');
        for line in help.lines() {
            let _ = writeln!(text, "{}", format!("# {line}").trim_end());
        }
        let _ = writeln!(text, "{}", example_line(&setting, &arg));
    }
    text
}

const EXAMPLE_HEAD: &str = "\
# unavez.toml: read from the working directory, or from the path given with --config.
#
# Every key is shown with its default; a key without one shows what kind of value it takes. Take away the `#` in
# front of a key to set it. A flag on the command line wins over an environment variable (UNAVEZ_SERVE_LISTEN), which
# wins over this file. Unknown sections and keys are errors. `unavez config` prints what is in force and why.
#
# This file is the output of `unavez config --example`.";

fn example_line(setting: &Setting, arg: &Arg) -> String {
    let key = &setting.key;
    if super::layers::is_switch(arg) {
        return format!("#{key} = false");
    }
    let quote = |text: &str| match text.parse::<f64>() {
        Ok(_) => text.to_owned(),
        Err(_) => toml::Value::from(text).to_string(),
    };
    let default: Vec<String> =
        arg.get_default_values().iter().map(|value| quote(&value.to_string_lossy())).collect();
    let names = || {
        arg.get_value_names()
            .and_then(|names| names.first())
            .map_or("…".to_owned(), |name| format!("<{name}>"))
    };
    match (super::layers::takes_many(arg), default.first()) {
        (true, Some(_)) => format!("#{key} = [{}]", default.join(", ")),
        (true, None) => format!("#{key} = [{}]  # no default", quote(&names())),
        (false, Some(value)) => format!("#{key} = {value}"),
        (false, None) => format!("#{key} = {}  # no default", quote(&names())),
    }
}
