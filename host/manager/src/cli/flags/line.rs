//! Arguments in the syntax of Go's pflag, brought into clap's.
//!
//! `--flag=value`, `--flag value`; a truth value never takes the next word and
//! may be any of Go's twelve; underscores are dashes; of a flag that is repeated
//! the last value counts, of a list all. So clap's arguments are declared
//! plainly, a flag that is true or false as `bool`, and need none of this.

use std::{any::TypeId, collections::BTreeSet, path::PathBuf};

use clap::{Arg, ArgAction, Command};
use coxswain::{goflag, manager::Given};

use super::file::{Entry, Origin};

/// Arguments, taken apart.
#[derive(Debug, Default)]
pub struct Split {
    /// Flags that the command knows, in clap's form.
    known: Vec<Known>,
    /// Words that are no long flags.
    words: Vec<String>,
    given: Given,
}

#[derive(Debug)]
struct Known {
    name: String,
    argument: Option<String>,
    value: String,
    is_list: bool,
}

/// Takes arguments apart.
pub fn split(command: &Command, args: Vec<String>) -> Result<Split, String> {
    let mut split = Split::default();
    let mut rest = args.into_iter().peekable();
    while let Some(word) = rest.next() {
        let Some(flag) = word.strip_prefix("--").filter(|flag| !flag.is_empty()) else {
            split.words.push(word);
            continue;
        };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        let name = canonical(name);
        match find(command, &name) {
            Some(arg) if takes_no_word(arg) => split.add_known(arg, &name, value)?,
            Some(arg) => {
                // Whatever follows is the value, as Go has it: `--cluster-cidr -x` is no flag.
                let value = value.or_else(|| rest.next());
                split.add_known(arg, &name, value)?;
            }
            None => {
                let is_value = |next: &String| {
                    !next.starts_with('-') || next[1..].starts_with(|c: char| c.is_ascii_digit() || c == '.')
                };
                match value.or_else(|| rest.next_if(is_value)) {
                    Some(value) => split.given.add(name, value),
                    None => split.given.add_bare(name),
                }
            }
        }
    }
    Ok(split)
}

/// A name as we write it.
fn canonical(name: &str) -> String {
    name.replace('_', "-")
}

fn find<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let is_called = |arg: &&Arg| {
        arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|all| all.contains(&name))
    };
    command.get_arguments().find(is_called)
}

fn is<T: 'static>(arg: &Arg) -> bool {
    arg.get_value_parser().type_id() == TypeId::of::<T>()
}

fn is_switch(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::Help | ArgAction::Version)
}

fn takes_no_word(arg: &Arg) -> bool {
    !arg.get_action().takes_values()
        || is::<bool>(arg)
        || arg.get_num_args().is_some_and(|number| number.min_values() == 0)
}

impl Split {
    fn add_known(&mut self, arg: &Arg, name: &str, value: Option<String>) -> Result<(), String> {
        let is_list = matches!(arg.get_action(), ArgAction::Append | ArgAction::Count);
        let mut add = |argument: Option<String>, value: String| {
            let name = arg.get_long().unwrap_or(name).to_owned();
            self.known.push(Known { name, argument, value, is_list });
        };
        if is_switch(arg) {
            // `--version=raw` is among kube-controller-manager's.
            let on = match value.as_deref() {
                None | Some("raw") => true,
                Some(value) => truth(name, value)?,
            };
            add(on.then(|| format!("--{name}")), on.to_string());
        } else if is::<bool>(arg) {
            let on = value.as_deref().map_or(Ok(true), |value| truth(name, value))?;
            add(Some(format!("--{name}={on}")), on.to_string());
        } else {
            // An empty path is none.
            let none = is::<PathBuf>(arg) && value.as_deref() == Some("");
            let argument = match &value {
                Some(value) => format!("--{name}={value}"),
                None => format!("--{name}"),
            };
            add((!none).then_some(argument), value.unwrap_or_default());
        }
        Ok(())
    }

    /// The value of a flag that the command knows.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.known.iter().rev().find(|known| known.name == name).map(|known| known.value.as_str())
    }

    /// Adds what a file says about flags that the command line does not mention.
    pub fn add_file(
        &mut self,
        command: &Command,
        path: PathBuf,
        entries: Vec<Entry>,
    ) -> Result<Origin, String> {
        let on_line: BTreeSet<String> = self
            .known
            .iter()
            .map(|known| known.name.clone())
            .chain(self.given.names().map(str::to_owned))
            .chain(self.words.iter().filter_map(|word| short(command, word)))
            .collect();
        let mut origin = Origin { path, names: BTreeSet::new() };
        for entry in entries {
            let name = canonical(&entry.name);
            let at = |error: String| format!("{}: {error}", origin.path.display());
            if name == "config" {
                return Err(at("a configuration file cannot name another with config".into()));
            }
            if !origin.names.insert(name.clone()) {
                return Err(at(format!("{} is there twice, with dashes and with underscores", entry.name)));
            }
            if on_line.contains(&name) {
                continue;
            }
            match find(command, &name) {
                Some(arg) if matches!(arg.get_action(), ArgAction::Help | ArgAction::Version) => {
                    return Err(at(format!("{name} is for the command line alone")));
                }
                // Commas are not between its values but in them.
                Some(arg)
                    if matches!(arg.get_action(), ArgAction::Append)
                        && arg.get_value_delimiter().is_none() =>
                {
                    for item in entry.items {
                        self.add_known(arg, &name, Some(item)).map_err(at)?;
                    }
                }
                Some(arg) => self.add_known(arg, &name, Some(entry.value)).map_err(at)?,
                None => self.given.add(name, entry.value),
            }
        }
        origin.names.retain(|name| !on_line.contains(name));
        Ok(origin)
    }

    /// What clap is to parse, and what it does not know.
    pub fn finish(self) -> (Vec<String>, Given) {
        let mut args = Vec::new();
        for (at, known) in self.known.iter().enumerate() {
            let again = self.known[at + 1..].iter().any(|later| later.name == known.name);
            if known.is_list || !again {
                args.extend(known.argument.clone());
            }
        }
        args.extend(self.words);
        (args, self.given)
    }
}

/// The long name of a short flag such as `-v4`.
fn short(command: &Command, word: &str) -> Option<String> {
    let letter = word.strip_prefix('-')?.chars().next()?;
    let arg = command.get_arguments().find(|arg| arg.get_short() == Some(letter))?;
    arg.get_long().map(str::to_owned)
}

fn truth(name: &str, value: &str) -> Result<bool, String> {
    goflag::boolean(value).map_err(|expected| format!("--{name}={value}: {expected}"))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[arg(long)]
        path: Option<PathBuf>,
        #[arg(long, default_value_t = true, action = ArgAction::Set)]
        on: bool,
        #[arg(long)]
        switch: bool,
        #[arg(long, default_value_t = 5)]
        number: i32,
        #[arg(long, value_delimiter = ',')]
        list: Vec<String>,
        #[arg(long)]
        pair: Vec<String>,
        #[arg(short, long, default_value_t = 0)]
        v: u8,
    }

    fn parse(line: &str) -> Result<(Flags, Given), String> {
        let words = line.split_whitespace().map(str::to_owned).collect();
        let (args, given) = split(&Flags::command(), words)?.finish();
        let parsed = Flags::try_parse_from(["some".to_owned()].into_iter().chain(args));
        Ok((parsed.map_err(|error| error.to_string())?, given))
    }

    #[test]
    fn gos_syntax_becomes_claps() {
        let (some, given) = parse("--on=F --switch=1 --number -7 --list=a,b --list=c -v 4 --path=").unwrap();
        assert!(!some.on && some.switch);
        assert_eq!((some.number, some.v, some.path), (-7, 4, None));
        assert_eq!(some.list, ["a", "b", "c"]);
        assert_eq!(given, Given::new());
        let (some, _) = parse("--on --switch=false -v=6 --path /p --number=1 --number=2").unwrap();
        assert!(some.on && !some.switch);
        assert_eq!((some.number, some.v), (2, 6));
        assert_eq!(some.path, Some("/p".into()));
        assert!(parse("--on=maybe").is_err_and(|error| error == "--on=maybe: expected true or false"));
        // As with Go, a truth value is no separate word.
        assert!(parse("--on false").is_err());
        assert!(parse("--number").is_err());
        assert!(parse("stray").is_err());
    }

    #[test]
    fn what_is_not_known_is_set_aside() {
        let (_, given) =
            parse("--other 3s --some_thing=7 --flag --on --negative -5 --empty= --twice=1 --twice=2")
                .unwrap();
        assert_eq!(given.get("other"), Some("3s"));
        assert_eq!(given.get("some-thing"), Some("7"));
        assert_eq!(given.get("flag"), Some("true"));
        assert!(given.is_bare("flag") && !given.is_bare("other"));
        assert_eq!(given.get("negative"), Some("-5"));
        assert_eq!(given.get("empty"), Some(""));
        assert_eq!(given.list("twice").as_deref(), Some("1,2"));
    }

    #[test]
    fn the_command_line_wins_over_the_file() {
        let entry = |name: &str, value: &str| Entry {
            name: name.into(),
            value: value.into(),
            items: value.split(';').map(str::to_owned).collect(),
        };
        let words = ["--number=1", "-v4", "--other=line"].map(str::to_owned).to_vec();
        let mut split = split(&Flags::command(), words).unwrap();
        let entries = vec![
            entry("number", "9"),
            entry("v", "9"),
            entry("other", "file"),
            entry("list", "x,y"),
            entry("pair", "a,b;c,d"),
            entry("switch", "true"),
            entry("more_of", "z"),
        ];
        let origin = split.add_file(&Flags::command(), "f.yaml".into(), entries).unwrap();
        assert_eq!(origin.names, ["list", "more-of", "pair", "switch"].map(str::to_owned).into());
        let (args, given) = split.finish();
        let some = Flags::parse_from(["some".to_owned()].into_iter().chain(args));
        assert_eq!((some.number, some.v, some.switch), (1, 4, true));
        assert_eq!(some.list, ["x", "y"]);
        assert_eq!(some.pair, ["a,b", "c,d"]);
        assert_eq!((given.get("other"), given.get("more-of")), (Some("line"), Some("z")));
    }

    #[test]
    fn a_file_cannot_ask_for_help_or_for_another_file() {
        for (name, wanted) in [("config", "cannot name another"), ("help", "for the command line alone")] {
            let entry = Entry { name: name.into(), value: "true".into(), items: vec!["true".into()] };
            let mut command = Flags::command();
            command.build();
            let error = Split::default().add_file(&command, "f.yaml".into(), vec![entry]).unwrap_err();
            assert!(error.starts_with("f.yaml: ") && error.contains(wanted), "{error}");
        }
    }
}
