//! Hybrid search of blocks: full text and embeddings, or full text alone where there are no embeddings.

use flowloom_core::block::{BlockCard, Fit, Thresholds, compare_block};
use flowloom_core::error::StepFailure;
use flowloom_core::json::parse_value;
use flowloom_core::value::Value;
use flowloom_store::{BUILTIN_USER, BlockQuery, DefinitionKey, DefinitionKind, FoundBlock, Store};

use super::embeddings::QueryEmbedding;
use super::{BlockRegistry, find_built_in};

/// Minimum similarity of a block without a common word. It only excludes unrelated blocks; whether a block matches is
/// decided by `Thresholds`.
const MIN_SIMILARITY: f32 = 0.3;

/// The result of a block search.
#[derive(Clone, Debug, Default)]
pub struct BlockSearch {
    /// The matching blocks, best first.
    pub matches: Vec<BlockMatch>,
    /// Why the search used full text only, if embeddings were expected.
    pub fallback_reason: Option<StepFailure>,
}

/// A block that matches the search.
#[derive(Clone, Debug)]
pub struct BlockMatch {
    /// The block's definition, as stored.
    pub block: Value,
    /// The combined rank score by which results are sorted; higher is better.
    pub score: f64,
    /// The cosine similarity of the embeddings; `None` without embeddings.
    pub similarity: Option<f32>,
    /// Whether the block meets the request.
    pub fit: Fit,
}

impl BlockRegistry {
    /// Searches the user's blocks, everyone's and the built-in ones for a block that meets the request. Fails if the
    /// store cannot be read or written; without embeddings, words alone are compared.
    pub async fn find_blocks(&self, user: &str, wanted: &BlockCard, limit: usize) -> Result<BlockSearch, StepFailure> {
        self.index_built_in().await?;
        self.embed_built_in().await;
        let (vector, by_words) = match self.embeddings.embed_query(&wanted.embedding_text()).await {
            Ok(vector) => (vector, None),
            Err(error) => (None, Some(error)),
        };
        let (user, wanted, thresholds) = (user.to_owned(), wanted.clone(), self.embeddings.thresholds());
        let found =
            self.run_blocking(move |store| query_store(store, &user, &wanted, vector.as_ref(), &thresholds, limit));
        Ok(BlockSearch { matches: found.await?, fallback_reason: by_words })
    }

    /// Searches blocks by a few words that a person wrote. Fails if the store cannot be read.
    pub async fn search_blocks(&self, user: &str, words: &str, limit: usize) -> Result<BlockSearch, StepFailure> {
        let wanted = BlockCard { description: words.to_owned(), ..BlockCard::default() };
        self.find_blocks(user, &wanted, limit).await
    }
}

fn query_store(
    store: &Store,
    user: &str,
    wanted: &BlockCard,
    vector: Option<&QueryEmbedding>,
    thresholds: &Thresholds,
    limit: usize,
) -> Result<Vec<BlockMatch>, StepFailure> {
    let words = wanted.search_text();
    let vector = vector.map(|made| (made.model.as_str(), &*made.vector));
    let near = store.search_blocks(BlockQuery { user, words: &words, vector, limit })?;
    let mut all = Vec::new();
    for one in near.into_iter().filter(is_similar) {
        // The block may have been deleted since, or may belong to another release.
        let Some(block) = load_block(store, &one)? else { continue };
        let fit = compare_block(wanted, &BlockCard::from_definition(&block), one.similarity, thresholds);
        all.push(BlockMatch { block, score: one.score, similarity: one.similarity, fit });
    }
    Ok(all)
}

fn is_similar(found: &FoundBlock) -> bool {
    found.words.is_some() || found.similarity.is_some_and(|similarity| similarity >= MIN_SIMILARITY)
}

fn load_block(store: &Store, found: &FoundBlock) -> Result<Option<Value>, StepFailure> {
    if found.user == BUILTIN_USER {
        return Ok(find_built_in(&found.id).cloned());
    }
    let key = DefinitionKey { user: found.user.clone(), kind: DefinitionKind::Block, id: found.id.clone() };
    Ok(store.get_definition(&key)?.and_then(|row| parse_value(&row.content).ok()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A registry of built-in blocks with the local model; `None` if the model is not cached.
    #[allow(clippy::print_stderr)]
    pub(crate) async fn open_registry(folder: &std::path::Path) -> Option<BlockRegistry> {
        let registry = crate::blocks::tests::open_registry(folder);
        let done = registry.embed_missing().await;
        done.inspect_err(|_| eprintln!("SKIP embedding model not cached")).ok()?;
        Some(registry)
    }

    /// A wanted block (name, description, inputs, outputs) and the id of the block that matches it, or `-`.
    const WANTED_BLOCKS: &str = "\
        web search | Search the web for recent articles on a given topic | query:string | results:array | web_search
        fetch page | Fetch a web page and extract its text content | url:string | content:string | web_scrape
        load state | Read a value from the user's memory by its key | key:string | value: | memory_read
        save state | Store a value under a key in the user's memory for later runs | key:string value: | success:boolean | memory_write
        send notification | Send a push notification with a title and a body to the user | title:string body:string | delivered:boolean | notify_push
        filter list | Filter a list of items by comparing a field with a value | items:array field:string value: | items:array | filter
        call api | Send an HTTP request to an API and return the response | url:string method:string | status:integer body: | http_request
        transform each | Apply a template to every item of a list | items:array template:string | results:array | for_each
        translate | Translate a text into another language | text:string language:string | translation:string | -
        summarize | Summarize a long text in three sentences | text:string | summary:string | -
        sort list | Sort a list of items by a field | items:array field:string | items:array | -
        send email | Send an email to an address | to:string subject:string body:string | sent:boolean | -";

    /// The schema of an object with these fields, each written as `name:type`.
    pub(crate) fn build_schema(fields: &str) -> Value {
        let kind = |kind: &str| Value::map((!kind.is_empty()).then(|| ("type", Value::from(kind))));
        let fields: Vec<(&str, &str)> = fields.split(' ').filter_map(|field| field.split_once(':')).collect();
        let required = fields.iter().map(|(name, _)| Value::from(*name)).collect();
        let properties = Value::map(fields.iter().map(|(name, of)| (*name, kind(of))));
        Value::map([("type", "object".into()), ("properties", properties), ("required", Value::list(required))])
    }

    #[tokio::test]
    async fn built_in_blocks_are_taken_for_what_they_do_and_for_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let Some(registry) = open_registry(folder.path()).await else { return };
        for line in WANTED_BLOCKS.lines() {
            let fields: Vec<&str> = line.split('|').map(str::trim).collect();
            let [name, description, inputs, outputs, taken] = fields[..] else { panic!("{line}") };
            let (inputs, outputs) = (build_schema(inputs), build_schema(outputs));
            let (name, description, execution_type) = (name.to_owned(), description.to_owned(), "python".to_owned());
            let card = BlockCard { name, description, execution_type, inputs, outputs, ..BlockCard::default() };
            let finding = registry.find_blocks("ann", &card, 5).await.expect("a search");
            assert_eq!(finding.fallback_reason, None);
            let first = finding.matches.iter().find(|found| found.fit.is_usable());
            let first = first.map_or("-", |found| super::super::id_of(&found.block));
            assert_eq!(first, taken, "{}: {:?}", card.description, finding.matches);
        }
    }
}
