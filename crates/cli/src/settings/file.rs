//! `unavez.toml`: read, and checked against the commands it configures.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};
use toml::{Table, Value};

use super::layers::{Setting, below, is_switch, section_name, settings_of, takes_many};
use super::nearest::nearest;
use crate::exit::Failure;

/// The name looked for in the working directory.
const DEFAULT_NAME: &str = "unavez.toml";

/// A configuration file whose every section and key exists.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    pub(crate) path: PathBuf,
    table: Table,
}

impl ConfigFile {
    /// Reads the named file, or `unavez.toml` of the working directory if it is there.
    pub(crate) fn find(named: Option<&Path>, root: &Command) -> Result<Option<Self>, Failure> {
        let path = named.unwrap_or(Path::new(DEFAULT_NAME));
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(path, &text, root).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound && named.is_none() => Ok(None),
            Err(error) => Err(Failure::usage(format!("{}: cannot be read: {error}", path.display()))),
        }
    }

    /// Parses a file and refuses sections and keys that no command has.
    pub(crate) fn parse(path: &Path, text: &str, root: &Command) -> Result<Self, Failure> {
        let refuse = |reason: String| Failure::usage(format!("{}: {reason}", path.display()));
        let table: Table =
            toml::from_str(text).map_err(|error| refuse(error.to_string().trim_end().to_owned()))?;
        check_names(&table, root, &[]).map_err(refuse)?;
        Ok(Self { path: path.to_owned(), table })
    }

    /// The value written for a setting, as its flag would take it.
    pub(super) fn values(&self, setting: &Setting) -> Option<Vec<String>> {
        let mut table = &self.table;
        for name in &setting.path {
            table = table.get(name)?.as_table()?;
        }
        table.get(&setting.key).map(|value| match value {
            Value::Array(items) => items.iter().filter_map(scalar).collect(),
            one => scalar(one).into_iter().collect(),
        })
    }
}

/// Walks file and commands side by side.
fn check_names(table: &Table, command: &Command, path: &[String]) -> Result<(), String> {
    for (name, value) in table {
        if let Some(subcommand) = command.find_subcommand(name) {
            let path = below(path, name);
            let section = section_name(&path);
            let inner =
                value.as_table().ok_or_else(|| format!("`{section}` is a section: write [{section}]"))?;
            check_names(inner, subcommand, &path)?;
        } else if let Some(arg) =
            command.get_arguments().find(|arg| Setting::of(path, arg).is_some_and(|s| s.key == *name))
        {
            check_shape(value, arg)
                .map_err(|reason| format!("`{name}` in [{}] {reason}", section_name(path)))?;
        } else {
            return Err(unknown(name, value, command, path));
        }
    }
    Ok(())
}

fn unknown(name: &str, value: &Value, command: &Command, path: &[String]) -> String {
    let sections: Vec<String> =
        command.get_subcommands().map(|sub| section_name(&below(path, sub.get_name()))).collect();
    if path.is_empty() && !value.is_table() {
        let owner = settings_of(command).into_iter().find(|(setting, _)| setting.key == name);
        let home = owner.map_or("a section, such as [serve]".to_owned(), |(setting, _)| {
            format!("[{}]", setting.section())
        });
        return format!("the key `{name}` stands outside a section; write it below {home}");
    }
    if value.is_table() || command.has_subcommands() {
        let section = section_name(&below(path, name));
        let known = nearest(&section, sections.iter().map(String::as_str));
        return match known {
            Some(known) => format!("unknown section [{section}]; the nearest known one is [{known}]"),
            None => format!("unknown section [{section}]; [{}] has no sections below it", section_name(path)),
        };
    }
    let keys: Vec<String> =
        command.get_arguments().filter_map(|arg| Setting::of(path, arg)).map(|s| s.key).collect();
    let section = section_name(path);
    match nearest(name, keys.iter().map(String::as_str)) {
        Some(known) => format!("unknown key `{name}` in [{section}]; the nearest known one is `{known}`"),
        None => format!("unknown key `{name}` in [{section}], which has no keys"),
    }
}

fn check_shape(value: &Value, arg: &Arg) -> Result<(), String> {
    match value {
        Value::Table(_) => Err("takes a value, not a section".to_owned()),
        Value::Boolean(_) if is_switch(arg) => Ok(()),
        _ if is_switch(arg) => Err(format!("is true or false, not {value}")),
        Value::Array(_) if !takes_many(arg) => Err("takes one value, not an array".to_owned()),
        Value::Array(items) if items.iter().any(|item| scalar(item).is_none()) => {
            Err("takes an array of plain values".to_owned())
        }
        _ => Ok(()),
    }
}

/// A plain value as text; numbers in TOML's notation.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {
            Some(value.to_string())
        }
        Value::Array(_) | Value::Table(_) => None,
    }
}
