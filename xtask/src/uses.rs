//! The uses between the files of a crate, read from its sources: which file names an item that another defines.
//!
//! A name is followed through re-exports to the file that defines it, so a `pub use` neither is a use nor hides one.
//! `mod` declarations are no uses either. Code under `#[cfg(test)]` is left out, and so are comments.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// One use of an item by a file other than its own.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Use {
    pub(crate) from: PathBuf,
    pub(crate) to: PathBuf,
    /// The item.
    pub(crate) name: String,
    pub(crate) line: usize,
}

/// A file or a module written inside one.
#[derive(Default)]
struct Module {
    file: PathBuf,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    items: BTreeSet<String>,
    imports: Vec<Import>,
    /// Paths before a `*`.
    globs: Vec<Vec<String>>,
    mentions: Vec<Mention>,
}

/// A name that a `use` declares.
struct Import {
    name: String,
    path: Vec<String>,
}

/// A path that the code names.
struct Mention {
    path: Vec<String>,
    line: usize,
    is_macro: bool,
}

/// The modules of a crate. The first one is its root.
struct Modules<'a> {
    sources: &'a BTreeMap<PathBuf, String>,
    all: Vec<Module>,
    /// The files that define a macro, by its name.
    macros: BTreeMap<String, BTreeSet<PathBuf>>,
}

/// Names that were looked up, each in a module.
type Seen = BTreeSet<(usize, String)>;

/// The target of a path.
enum Target {
    Module(usize),
    /// An item that this module defines, or a name of it that only a macro can have made.
    Item(usize, String),
}

/// The files of the crate with the root `root`, and the uses between them. `sources` has the text of each file.
///
/// # Errors
/// If a source is not Rust, or if a module has no file.
pub(crate) fn of_crate(
    root: &Path,
    sources: &BTreeMap<PathBuf, String>,
) -> anyhow::Result<(BTreeSet<PathBuf>, BTreeSet<Use>)> {
    let mut modules = Modules {
        sources,
        all: Vec::new(),
        macros: BTreeMap::new(),
    };
    modules.add_file(root, None)?;
    let files = modules.all.iter().map(|module| module.file.clone());
    Ok((files.collect(), modules.uses()))
}

impl Modules<'_> {
    fn add_file(&mut self, path: &Path, parent: Option<usize>) -> anyhow::Result<usize> {
        let text = self.sources.get(path);
        let text = text.with_context(|| format!("{} does not exist", path.display()))?;
        let tokens: TokenStream = text
            .parse()
            .map_err(|error| anyhow!("{}: {error}", path.display()))?;
        let module = self.add(path, parent);
        let folder = path.parent().expect("a file is in a folder");
        let stem = path.file_stem().unwrap_or_default();
        let folder = if parent.is_none() || stem == "mod" {
            folder.to_owned()
        } else {
            folder.join(stem)
        };
        self.scan(module, &folder, tokens, true)?;
        Ok(module)
    }

    fn add(&mut self, file: &Path, parent: Option<usize>) -> usize {
        self.all.push(Module {
            file: file.to_owned(),
            parent,
            ..Module::default()
        });
        self.all.len() - 1
    }

    /// Notes what `tokens` declare and name. `folder` has the files of the modules declared in them, and only
    /// tokens at the level of items declare items.
    fn scan(
        &mut self,
        module: usize,
        folder: &Path,
        tokens: TokenStream,
        are_items: bool,
    ) -> anyhow::Result<()> {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            let rest = &tokens[at..];
            at += match rest {
                [sign, TokenTree::Group(attribute), ..] if is(sign, '#') => {
                    let skipped = if is_for_tests(attribute) {
                        item_len(&rest[2..], are_items)
                    } else {
                        0
                    };
                    2 + skipped
                }
                [TokenTree::Ident(word), TokenTree::Group(_), ..] if word == "pub" => 2,
                [TokenTree::Ident(word), ..] if word == "use" => {
                    let is_public = at > 0 && is_visibility(&tokens[..at]);
                    let end = rest.iter().position(|token| is(token, ';'));
                    let end = end.unwrap_or(rest.len());
                    self.import(module, &rest[1..end], &mut Vec::new(), is_public);
                    end + 1
                }
                [TokenTree::Ident(word), TokenTree::Ident(name), next, ..]
                    if are_items && word == "mod" =>
                {
                    self.declare(module, folder, &name.to_string(), next)?;
                    3
                }
                [TokenTree::Ident(word), sign, TokenTree::Ident(name), ..]
                    if word == "macro_rules" && is(sign, '!') =>
                {
                    let file = self.all[module].file.clone();
                    self.all[module].items.insert(name.to_string());
                    self.macros
                        .entry(name.to_string())
                        .or_default()
                        .insert(file);
                    3
                }
                [TokenTree::Ident(word), TokenTree::Ident(name), ..]
                    if are_items
                        && defines(&word.to_string(), &name.to_string())
                        // `&'static T`, `*const T`.
                        && !tokens[..at].last().is_some_and(|token| is(token, '\'') || is(token, '*')) =>
                {
                    self.all[module].items.insert(name.to_string());
                    2
                }
                [TokenTree::Group(group), ..] => {
                    self.scan(module, folder, group.stream(), false)?;
                    1
                }
                _ => self.mention(module, &tokens, at),
            };
        }
        Ok(())
    }

    /// Adds the module `name`, whose declaration goes on with `next`: its body or a semicolon.
    fn declare(
        &mut self,
        parent: usize,
        folder: &Path,
        name: &str,
        next: &TokenTree,
    ) -> anyhow::Result<()> {
        let child = if let TokenTree::Group(body) = next {
            let file = self.all[parent].file.clone();
            let child = self.add(&file, Some(parent));
            self.scan(child, &folder.join(name), body.stream(), true)?;
            child
        } else {
            let file = folder.join(format!("{name}.rs"));
            let inside = folder.join(name).join("mod.rs");
            let is_file = self.sources.contains_key(&file);
            self.add_file(if is_file { &file } else { &inside }, Some(parent))?
        };
        self.all[parent].children.insert(name.to_owned(), child);
        Ok(())
    }

    /// Notes the names of a `use`, or of one of its groups, whose paths start with `before`. A private name is also a
    /// mention: a trait need not occur again.
    fn import(
        &mut self,
        module: usize,
        tree: &[TokenTree],
        before: &mut Vec<String>,
        is_public: bool,
    ) {
        let outer = before.len();
        let mut line = 0;
        let mut name = None;
        let mut tokens = tree.iter().peekable();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Ident(word) if word == "as" => {
                    name = tokens.next().map(ToString::to_string);
                }
                TokenTree::Ident(word) => {
                    line = word.span().start().line;
                    before.push(word.to_string());
                }
                TokenTree::Group(group) => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    for part in inner.split(|token| is(token, ',')) {
                        self.import(module, part, before, is_public);
                    }
                    before.truncate(outer);
                    return;
                }
                token if is(token, '*') => self.all[module].globs.push(before.clone()),
                _ => {}
            }
        }
        if line > 0 && !tree.last().is_some_and(|token| is(token, '*')) {
            if before.len() > 1 && before.last().is_some_and(|last| last == "self") {
                before.pop();
            }
            let name = name.or_else(|| before.last().cloned()).unwrap_or_default();
            let path = before.clone();
            if !is_public {
                self.all[module].mentions.push(Mention {
                    path: path.clone(),
                    line,
                    is_macro: false,
                });
            }
            self.all[module].imports.push(Import { name, path });
        }
        before.truncate(outer);
    }

    /// Notes the path at `at`, if there is one, and returns the number of its tokens, or 1.
    fn mention(&mut self, module: usize, tokens: &[TokenTree], at: usize) -> usize {
        let TokenTree::Ident(first) = &tokens[at] else {
            return 1;
        };
        let before = &tokens[..at];
        let is_crate = first == "crate";
        let is_part = before.last().is_some_and(|token| {
            // A field, a method, a lifetime, or a variable of a macro; but `..a` is a path.
            is(token, '.')
                && !before
                    .iter()
                    .rev()
                    .nth(1)
                    .is_some_and(|token| is(token, '.'))
                || is(token, '\'')
                || is(token, '$') && !is_crate
        });
        let mut path = vec![first.to_string()];
        let mut end = at + 1;
        while let [a, b, TokenTree::Ident(next), ..] = &tokens[end..]
            && is(a, ':')
            && is(b, ':')
        {
            path.push(next.to_string());
            end += 3;
        }
        let is_outside = before.len() > 1 && before[at - 2..].iter().all(|token| is(token, ':'));
        let is_field = path.len() == 1
            && tokens.get(end).is_some_and(|token| is(token, ':'))
            && !tokens.get(end + 1).is_some_and(|token| is(token, ':'));
        if !is_part && !is_outside && !is_field {
            let is_macro = tokens.get(end).is_some_and(|token| is(token, '!'))
                && !tokens.get(end + 1).is_some_and(|token| is(token, '='));
            self.all[module].mentions.push(Mention {
                path,
                line: first.span().start().line,
                is_macro,
            });
        }
        end - at
    }

    fn uses(&self) -> BTreeSet<Use> {
        let mut uses = BTreeSet::new();
        for (index, module) in self.all.iter().enumerate() {
            for mention in &module.mentions {
                let [.., name] = &mention.path[..] else {
                    continue;
                };
                let (to, name) = match self.resolve(index, &mention.path, &mut BTreeSet::new()) {
                    Some(Target::Item(other, item)) => (&self.all[other].file, item),
                    Some(Target::Module(_)) => continue,
                    None if mention.is_macro => match self.macros.get(name) {
                        Some(files) if files.len() == 1 => {
                            (files.first().expect("there is one"), name.clone())
                        }
                        _ => continue,
                    },
                    None => continue,
                };
                if *to != module.file {
                    uses.insert(Use {
                        from: module.file.clone(),
                        to: to.clone(),
                        name,
                        line: mention.line,
                    });
                }
            }
        }
        uses
    }

    /// The target of `path` as code of `module` names it, or `None` if it is outside the crate. `seen` has the names
    /// that were looked up on the way, so that globs in a circle end.
    fn resolve(&self, module: usize, path: &[String], seen: &mut Seen) -> Option<Target> {
        let (first, rest) = path.split_first()?;
        let mut target = match first.as_str() {
            "crate" => Target::Module(0),
            "self" => Target::Module(module),
            "super" => Target::Module(self.all[module].parent?),
            name => self.member(module, name, seen)?,
        };
        for name in rest {
            let Target::Module(module) = target else {
                break;
            };
            target = match name.as_str() {
                "super" => Target::Module(self.all[module].parent?),
                _ => self
                    .member(module, name, seen)
                    .unwrap_or_else(|| Target::Item(module, name.clone())),
            };
        }
        Some(target)
    }

    /// The target of `name` in `module`: an item or a child of its own, or what a `use` there means by it.
    fn member(&self, module: usize, name: &str, seen: &mut Seen) -> Option<Target> {
        let here = &self.all[module];
        if let Some(&child) = here.children.get(name) {
            return Some(Target::Module(child));
        }
        if here.items.contains(name) {
            return Some(Target::Item(module, name.to_owned()));
        }
        if !seen.insert((module, name.to_owned())) {
            return None;
        }
        let mut imports = here.imports.iter().filter(|import| import.name == name);
        // `use clap;` names itself.
        if let Some(import) = imports.find(|import| import.path != [name]) {
            return self.resolve(module, &import.path, seen);
        }
        here.globs.iter().find_map(|glob| {
            let Target::Module(other) = self.resolve(module, glob, seen)? else {
                return None;
            };
            self.member(other, name, seen)
        })
    }
}

fn is(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

/// Whether an attribute leaves an item out of every build but that of the tests.
fn is_for_tests(attribute: &Group) -> bool {
    let text: String = attribute.stream().to_string().split_whitespace().collect();
    attribute.delimiter() == Delimiter::Bracket
        && (text == "cfg(test)" || text.starts_with("cfg(all(test,"))
}

/// Whether the tokens end with `pub` or `pub(...)`.
fn is_visibility(tokens: &[TokenTree]) -> bool {
    match tokens {
        [.., TokenTree::Ident(word)] => word == "pub",
        [.., TokenTree::Ident(word), TokenTree::Group(_)] => word == "pub",
        _ => false,
    }
}

/// Whether `word` starts the definition of the item `name`.
fn defines(word: &str, name: &str) -> bool {
    match word {
        "enum" | "fn" | "static" | "struct" | "trait" | "type" | "union" => name != "mut",
        "const" => !matches!(name, "async" | "extern" | "fn" | "unsafe"),
        _ => false,
    }
}

/// The number of tokens up to the end of the item, field or arm that starts here.
fn item_len(tokens: &[TokenTree], are_items: bool) -> usize {
    let mut ends_at_comma = !are_items;
    let mut ends_at_brace = true;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(word) => match word.to_string().as_str() {
                "fn" | "impl" | "struct" | "enum" | "trait" | "mod" => {
                    (ends_at_comma, ends_at_brace) = (false, true);
                }
                "const" | "let" | "static" | "type" | "use" => {
                    (ends_at_comma, ends_at_brace) = (false, false);
                }
                _ => {}
            },
            TokenTree::Group(group) if ends_at_brace && group.delimiter() == Delimiter::Brace => {
                return at + 1;
            }
            token if is(token, ';') || ends_at_comma && is(token, ',') => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}
