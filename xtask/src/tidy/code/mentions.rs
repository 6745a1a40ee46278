//! Collects the items, imports and mentioned paths of one module.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Fields, Item, UseTree, Visibility};

use super::Struct;
use super::conditions::is_for_tests;
use super::module::{Mention, Module};

/// Fills a [`Module`] from its items.
pub(super) struct Mentions<'tree> {
    module: &'tree mut Module,
    structs: &'tree mut Vec<Struct>,
}

impl<'tree> Mentions<'tree> {
    pub(super) fn new(module: &'tree mut Module, structs: &'tree mut Vec<Struct>) -> Self {
        Mentions { module, structs }
    }

    /// Records the name of an item that the module defines.
    pub(super) fn declare(&mut self, item: &Item) {
        if is_for_tests(attributes(item)) {
            return;
        }
        let name = match item {
            Item::Const(it) => &it.ident,
            Item::Enum(it) => &it.ident,
            Item::Fn(it) => &it.sig.ident,
            Item::Static(it) => &it.ident,
            Item::Struct(it) => &it.ident,
            Item::Trait(it) => &it.ident,
            Item::TraitAlias(it) => &it.ident,
            Item::Type(it) => &it.ident,
            Item::Union(it) => &it.ident,
            Item::Macro(it) => match &it.ident {
                Some(name) => name,
                None => return,
            },
            _ => return,
        };
        self.module.items.insert(name.to_string());
    }

    fn mention(&mut self, path: Vec<String>, line: usize) {
        self.module.mentions.push(Mention { path, line });
    }

    /// Records one `use` line. A line that is visible elsewhere is a re-export, not a mention.
    fn import(&mut self, tree: &UseTree, before: &[String], is_private: bool) {
        let (ident, alias) = match tree {
            UseTree::Path(path) => {
                let before = [before, &[path.ident.to_string()]].concat();
                return self.import(&path.tree, &before, is_private);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, before, is_private);
                }
                return;
            }
            UseTree::Glob(_) => return self.module.globs.push(before.to_vec()),
            UseTree::Name(name) => (&name.ident, &name.ident),
            UseTree::Rename(rename) => (&rename.ident, &rename.rename),
        };
        let mut path = before.to_vec();
        if ident != "self" {
            path.push(ident.to_string());
        }
        let name = match (alias == "self", before.last()) {
            (true, Some(last)) => last.clone(),
            _ => alias.to_string(),
        };
        if is_private {
            self.mention(path.clone(), ident.span().start().line);
        }
        self.module.imports.entry(name).or_default().push(path);
    }

    /// Records paths in the input of a macro, which may not be Rust, so that only its tokens are
    /// read.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut index = 0;
        while let Some(token) = tokens.get(index) {
            if let TokenTree::Group(group) = token {
                self.tokens(group.stream());
            }
            let TokenTree::Ident(first) = token else {
                index += 1;
                continue;
            };
            let is_member = index > 0 && is_sign(tokens.get(index - 1), '.');
            let mut path = vec![first.to_string()];
            index += 1;
            while is_sign(tokens.get(index), ':')
                && is_sign(tokens.get(index + 1), ':')
                && let Some(TokenTree::Ident(next)) = tokens.get(index + 2)
            {
                path.push(next.to_string());
                index += 3;
            }
            let is_called = matches!(tokens.get(index), Some(TokenTree::Group(group))
                if group.delimiter() == Delimiter::Parenthesis);
            let is_type = path[0].starts_with(char::is_uppercase);
            if !is_member && (path.len() > 1 || is_called || is_type) {
                self.mention(path, first.span().start().line);
            }
        }
    }
}

impl<'ast> Visit<'ast> for Mentions<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        // Child modules are visited separately.
        if !is_for_tests(attributes(item)) && !matches!(item, Item::Mod(_)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !is_for_tests(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_private = matches!(item.vis, Visibility::Inherited);
        self.import(&item.tree, &[], is_private);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        if let Fields::Named(fields) = &item.fields {
            self.structs.push(Struct {
                file: self.module.file.clone(),
                name: item.ident.to_string(),
                fields: fields.named.len(),
            });
        }
        visit::visit_item_struct(self, item);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        // `::name` belongs to another crate.
        if path.leading_colon.is_none()
            && let Some(first) = path.segments.first()
        {
            self.mention(names, first.ident.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        self.visit_path(&invocation.path);
        self.tokens(invocation.tokens.clone());
    }

    // Neither shows what the code uses: `#[expect(…)]`, `pub(in …)`.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

fn is_sign(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(found)) if found.as_char() == sign)
}

/// Attributes of an item of any kind.
pub(in crate::tidy) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(it) => &it.attrs,
        Item::Enum(it) => &it.attrs,
        Item::ExternCrate(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::ForeignMod(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Macro(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        Item::TraitAlias(it) => &it.attrs,
        Item::Type(it) => &it.attrs,
        Item::Union(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        _ => &[],
    }
}
