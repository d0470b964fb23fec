//! Which files of a crate import which: a reader of its sources, and the floors of dm-core.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The rooms of dm-core from the ground up. Rooms of one floor do not import each other.
pub const FLOORS: &[&[&str]] = &[
    &["verbs", "marks", "manual"],
    &["error", "mutants"],
    &["port"],
    &["machine"],
    &["layout"],
    &["remote"],
    &["operation"],
    &["registry"],
    &["lane"],
    &["fabric"],
    &["memory"],
    &["membership"],
    &["locks"],
    &["recovery"],
    &["compute", "pages"],
    &["index"],
    &["btree", "radix"],
    &["sherman", "chime", "smart", "dolphin", "toy"],
    &["dex"],
    &["items"],
    &["rooms"],
];

/// A module's name, from the root of its crate.
pub type Module = Vec<String>;

/// A crate's modules that are files, and which of them names which.
#[derive(Debug, Default)]
pub struct Imports {
    /// Modules that are files; the root is the empty name.
    pub files: BTreeSet<Module>,
    /// What each of them names of the others; test modules and the root are left out.
    pub edges: BTreeMap<Module, BTreeSet<Module>>,
}

impl Imports {
    /// Reads a crate, by its folder in the workspace.
    pub fn read(krate: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(krate).join("src");
        let mut paths = Vec::new();
        files_below(&root, &mut paths);
        assert!(!paths.is_empty(), "{krate} has no sources at {}", root.display());
        let mut imports = Self::default();
        let mut texts = Vec::new();
        for path in paths {
            let module = module_of(path.strip_prefix(&root).expect("a path below the root"));
            texts.push((module.clone(), fs::read_to_string(&path).expect("a source file")));
            imports.files.insert(module);
        }
        for (module, text) in texts {
            // Test modules and the crate's root may name anything.
            if module.is_empty() || module.iter().any(|name| name == "tests") {
                continue;
            }
            let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{}: {error}", module.join("::")));
            let mut named = Vec::new();
            scan(tokens, &module, &mut named);
            let targets = named.iter().filter_map(|path| imports.file_of(path)).filter(|target| *target != module);
            let targets: BTreeSet<Module> = targets.collect();
            imports.edges.insert(module, targets);
        }
        imports
    }

    /// The file that a path leads into; the root is no file.
    fn file_of(&self, path: &[String]) -> Option<Module> {
        (1..=path.len()).rev().map(|length| path[..length].to_vec()).find(|module| self.files.contains(module))
    }

    /// What a file imports, but for its parents and children.
    fn neighbours<'a>(&'a self, module: &'a Module) -> impl Iterator<Item = &'a Module> {
        let targets = self.edges.get(module).into_iter().flatten();
        targets.filter(move |target| !module.starts_with(target) && !target.starts_with(module))
    }

    fn reaches(&self, from: &Module, to: &Module) -> bool {
        let mut seen = BTreeSet::new();
        let mut next: Vec<&Module> = self.neighbours(from).collect();
        while let Some(module) = next.pop() {
            if module == to {
                return true;
            }
            if seen.insert(module) {
                next.extend(self.neighbours(module));
            }
        }
        false
    }

    /// Sets of files each of which imports all others of its set, by way of others.
    pub fn circles(&self) -> BTreeSet<Vec<String>> {
        let mut circles = BTreeSet::new();
        for module in self.edges.keys().filter(|module| self.reaches(module, module)) {
            let together = self.edges.keys().filter(|other| self.reaches(module, other) && self.reaches(other, module));
            circles.insert(together.map(|module| module.join("::")).collect());
        }
        circles
    }
}

fn files_below(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("an entry of a folder").path();
        if path.is_dir() {
            files_below(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn module_of(path: &Path) -> Module {
    let names = path.with_extension("");
    let names = names.iter().map(|name| name.to_string_lossy().into_owned());
    names.filter(|name| name != "mod" && name != "lib" && name != "main").collect()
}

/// Collects the paths that begin with `crate`, `super` or `self`, in `use` items and elsewhere, from the crate's root.
/// What is compiled for tests only is passed over; comments and strings are no tokens of paths.
fn scan(tokens: TokenStream, module: &[String], named: &mut Vec<Module>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Punct(punct) if punct.as_char() == '#' && is_cfg_test(tokens.get(at + 1)) => {
                at = end_of_item(&tokens, at + 2);
            }
            TokenTree::Ident(ident) if ident == "mod" => match (tokens.get(at + 1), tokens.get(at + 2)) {
                (Some(TokenTree::Ident(name)), Some(TokenTree::Group(body))) => {
                    let inner = [module, &[name.to_string()]].concat();
                    scan(body.stream(), &inner, named);
                    at += 3;
                }
                _ => at += 1,
            },
            TokenTree::Ident(ident) if ident == "use" => {
                let end = (at..tokens.len()).find(|&end| is_punct(&tokens[end], ';')).unwrap_or(tokens.len());
                use_tree(&tokens[at + 1..end], &mut Vec::new(), module, named);
                at = end + 1;
            }
            TokenTree::Ident(ident) if ident == "crate" || ident == "super" || ident == "self" => {
                let (path, end) = path_at(&tokens, at);
                // Alone they are a receiver, or how far something is visible.
                if path.len() > 1 {
                    named.extend(from_root(&path, module));
                }
                at = end;
            }
            TokenTree::Group(group) => {
                scan(group.stream(), module, named);
                at += 1;
            }
            _ => at += 1,
        }
    }
}

fn is_punct(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == character)
}

fn is_cfg_test(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Group(group)) if group.stream().to_string().replace(' ', "") == "cfg(test)")
}

/// Behind the item that begins at `at`: its body, or its semicolon.
fn end_of_item(tokens: &[TokenTree], at: usize) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        token => is_punct(token, ';'),
    };
    (at..tokens.len()).find(|&end| ends(&tokens[end])).map_or(tokens.len(), |end| end + 1)
}

/// The path of identifiers at `at`, and where it ends.
fn path_at(tokens: &[TokenTree], at: usize) -> (Module, usize) {
    let mut path = Vec::new();
    let mut at = at;
    while let Some(TokenTree::Ident(ident)) = tokens.get(at) {
        path.push(ident.to_string());
        at += 1;
        let colons = tokens.get(at..at + 2).is_some_and(|two| two.iter().all(|token| is_punct(token, ':')));
        if !colons {
            break;
        }
        at += 2;
    }
    (path, at)
}

fn use_tree(tokens: &[TokenTree], front: &mut Module, module: &[String], named: &mut Vec<Module>) {
    for branch in tokens.split(|token| is_punct(token, ',')) {
        let depth = front.len();
        let (path, end) = path_at(branch, 0);
        front.extend(path);
        match branch.get(end) {
            Some(TokenTree::Group(group)) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                use_tree(&inner, front, module, named);
            }
            _ => named.extend(from_root(front, module)),
        }
        front.truncate(depth);
    }
}

/// A path as it is from the crate's root. `None`: another crate's.
fn from_root(path: &[String], module: &[String]) -> Option<Module> {
    let first = path.first()?.as_str();
    let ups = path.iter().take_while(|name| *name == "super").count();
    let path: Module = path.iter().filter(|name| *name != "self").cloned().collect();
    match first {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([module, &path].concat()),
        "super" => Some([module.get(..module.len().checked_sub(ups)?)?, &path[ups..]].concat()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tests of imports can fail: what they must see, and what they must pass over.
    #[test]
    fn paths_are_found_wherever_they_stand() {
        let text = r#"
            //! [`crate::comment`]
            use crate::{a::{self, B}, c::D as E};
            pub(crate) use super::sibling::F;
            mod inner { use super::super::cousin; fn f() { const { crate::inline::g() } } }
            fn h(text: &str) -> crate::h::I { macro_call!(crate::in_macro::J); "crate::string"; self.k() }
            #[cfg(test)]
            mod tests { use crate::only_for_tests; }
        "#;
        let mut named = Vec::new();
        scan(text.parse().expect("tokens"), &["room".to_owned(), "file".to_owned()], &mut named);
        let named: BTreeSet<String> = named.iter().map(|path| path.join("::")).collect();
        let expected = ["a", "a::B", "c::D", "room::sibling::F", "room::cousin", "inline::g", "h::I", "in_macro::J"];
        assert_eq!(named, expected.iter().map(|path| (*path).to_owned()).collect());
    }
}
