//! Block search by words and by vectors: the same tests on SQLite and on Postgres.

#[macro_use]
mod support;

use flowloom_store::{
    Actor, BUILTIN_USER, BlockQuery, DefinitionChange, DefinitionKey, DefinitionKind, FoundBlock, NewDefinition,
    Origin, SHARED_USER, Store,
};

use support::TestDatabase;

on_both!(
    words_find_blocks_in_every_form_and_nothing_else_does,
    what_is_near_is_found_without_a_common_word,
    both_orders_count_and_both_scores_are_reported,
    a_user_finds_their_own_and_what_everyone_has,
    what_the_program_brings_is_found_by_everyone_who_has_no_other,
    the_index_changes_with_the_block_and_in_every_process,
    equal_texts_share_a_vector_until_the_last_is_gone,
);

fn block_key(user: &str, id: &str) -> DefinitionKey {
    DefinitionKey { user: user.into(), kind: DefinitionKind::Block, id: id.into() }
}

fn put_block(user: &str, id: &str, description: &str) -> DefinitionChange {
    let content = format!(r#"{{"id": "{id}", "name": "{id}", "description": "{description}", "tags": ["tagged"]}}"#);
    put_content(user, id, &content)
}

fn put_content(user: &str, id: &str, content: &str) -> DefinitionChange {
    let content = content.to_owned();
    DefinitionChange::Put(NewDefinition {
        key: block_key(user, id),
        format: None,
        content,
        origin: Origin::Api,
        uses: Vec::new(),
    })
}

async fn apply_changes(store: &Store, changes: Vec<DefinitionChange>) {
    store.change_definitions(changes, &Actor::command_line(), 1).await.expect("made");
}

/// Gives every block without an embedding the vector that is listed for a word of its text.
async fn embed_missing(store: &Store, vectors: &[(&str, [f32; 2])]) {
    let missing = store.list_unembedded("m", 100).expect("readable");
    let of = |text: &str| vectors.iter().find(|(word, _)| text.contains(word)).map(|(_, vector)| vector.to_vec());
    let made = missing.into_iter().filter_map(|one| Some((one.hash, of(&one.text)?))).collect();
    store.store_embeddings("m", made).await.expect("kept");
}

fn search_blocks(store: &Store, words: &str, vector: Option<&[f32]>) -> Vec<FoundBlock> {
    let vector = vector.map(|vector| ("m", vector));
    store.search_blocks(BlockQuery { user: "ann", words, vector, limit: 10 }).expect("readable")
}

fn block_ids(found: &[FoundBlock]) -> Vec<&str> {
    found.iter().map(|found| found.id.as_str()).collect()
}

async fn words_find_blocks_in_every_form_and_nothing_else_does(place: &TestDatabase) {
    let store = place.open();
    let blocks = vec![
        put_block("ann", "fetch", "Downloads a page."),
        put_block("ann", "mail", "Sends letters to people."),
        put_content("ann", "odd", "this is no JSON"),
    ];
    apply_changes(&store, blocks).await;
    let found = |words: &str| block_ids(&search_blocks(&store, words, None)).join(" ");
    assert_eq!(found("downloading PAGES"), "fetch");
    assert_eq!(found("page letter"), "fetch mail");
    assert_eq!(found("odd"), "odd");
    assert_eq!(found("tagged"), "fetch mail");
    assert_eq!(found("the of a"), "");
    assert_eq!(found(""), "");
    assert_eq!(found("zebra"), "");
    // Operators of the databases' query languages are plain words, or ignored.
    assert_eq!(found(r#"page" OR * -( NEAR/2 'x' :* & | ! <-> \ {name} ^"#), "fetch");
    let text = search_blocks(&store, "page", None);
    assert!(text[0].words.is_some_and(|score| score > 0.0) && text[0].similarity.is_none(), "{text:?}");
}

async fn what_is_near_is_found_without_a_common_word(place: &TestDatabase) {
    let store = place.open();
    apply_changes(
        &store,
        vec![put_block("ann", "near", "One."), put_block("ann", "far", "Two."), put_block("ann", "bare", "Three.")],
    )
    .await;
    // Only the direction of a vector counts, not its length.
    embed_missing(&store, &[("One", [0.0, 9.0]), ("Two", [2.0, 0.0])]).await;
    let found = search_blocks(&store, "nothing common", Some(&[0.3, 0.4]));
    assert_eq!(block_ids(&found), ["near", "far"]);
    let near = found[0].similarity.expect("a similarity");
    assert!((near - 0.8).abs() < 1e-6 && found[0].words.is_none(), "{found:?}");
    // Vectors of another width, of length zero, or of another model do not count.
    assert_eq!(search_blocks(&store, "nothing", Some(&[1.0, 0.0, 0.0])), []);
    let other = BlockQuery { user: "ann", words: "", vector: Some(("other", &[1.0, 0.0])), limit: 10 };
    assert_eq!(store.search_blocks(other).expect("readable"), []);
    let left = store.list_unembedded("m", 100).expect("readable");
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].text, "bare.\nThree.");
    assert_eq!(store.list_unembedded("other", 2).expect("readable").len(), 2);
}

async fn both_orders_count_and_both_scores_are_reported(place: &TestDatabase) {
    let store = place.open();
    let blocks = vec![
        put_block("ann", "words", "Alpha alpha alpha."),
        put_block("ann", "both", "Alpha and beta."),
        put_block("ann", "near", "Gamma."),
    ];
    apply_changes(&store, blocks).await;
    embed_missing(&store, &[("Gamma", [1.0, 0.0]), ("beta", [0.6, 0.8])]).await;
    let found = search_blocks(&store, "alpha", Some(&[1.0, 0.0]));
    // Second place in both rankings beats first place in one.
    assert_eq!(found[0].id, "both", "{found:?}");
    assert!(found[0].words.is_some_and(|score| score > 0.0));
    assert!(found[0].similarity.is_some_and(|near| (near - 0.6).abs() < 1e-6), "{found:?}");
    assert!(found.windows(2).all(|two| two[0].score >= two[1].score));
    let one_sided: Vec<_> =
        found[1..].iter().map(|found| (found.words.is_some(), found.similarity.is_some())).collect();
    assert!(one_sided == [(true, false), (false, true)] || one_sided == [(false, true), (true, false)], "{found:?}");
    let one =
        store.search_blocks(BlockQuery { user: "ann", words: "alpha", vector: None, limit: 1 }).expect("readable");
    assert_eq!(one.len(), 1);
}

async fn a_user_finds_their_own_and_what_everyone_has(place: &TestDatabase) {
    let store = place.open();
    let blocks = vec![
        put_block(SHARED_USER, "common", "Alpha for all."),
        put_block(SHARED_USER, "hidden", "Alpha, the old one."),
        put_block("ann", "hidden", "Something else."),
        put_block("bob", "secret", "Alpha of bob."),
    ];
    apply_changes(&store, blocks).await;
    embed_missing(&store, &[("Alpha", [1.0, 0.0]), ("else", [0.0, 1.0])]).await;
    assert_eq!(block_ids(&search_blocks(&store, "alpha", None)), ["common"]);
    let found = search_blocks(&store, "alpha", Some(&[1.0, 0.0]));
    let names: Vec<_> = found.iter().map(|found| (found.user.as_str(), found.id.as_str())).collect();
    assert_eq!(names, [(SHARED_USER, "common"), ("ann", "hidden")]);
    let all = BlockQuery { user: SHARED_USER, words: "alpha", vector: Some(("m", &[1.0, 0.0])), limit: 10 };
    let mut all: Vec<_> = store.search_blocks(all).expect("readable").into_iter().map(|found| found.id).collect();
    all.sort();
    assert_eq!(all, ["common", "hidden"]);
}

async fn what_the_program_brings_is_found_by_everyone_who_has_no_other(place: &TestDatabase) {
    let store = place.open();
    let brought = |ids: &[&str]| -> Vec<(String, String)> {
        let content = |id: &str| format!(r#"{{"id": "{id}", "name": "{id}", "description": "Alpha {id}."}}"#);
        ids.iter().map(|id| ((*id).to_owned(), content(id))).collect()
    };
    store.index_builtin_blocks(brought(&["one", "two", "three", "old"])).await.expect("kept");
    let commits = store.commit_count();
    store.index_builtin_blocks(brought(&["one", "two", "three", "old"])).await.expect("kept");
    assert_eq!(store.commit_count(), commits, "the same is not written again");
    store.index_builtin_blocks(brought(&["one", "two", "three"])).await.expect("kept");
    apply_changes(
        &store,
        vec![
            put_block("ann", "one", "Beta."),
            put_block(SHARED_USER, "one", "Beta."),
            put_block(SHARED_USER, "two", "Beta."),
        ],
    )
    .await;
    embed_missing(&store, &[("Alpha", [1.0, 0.0]), ("Beta", [0.0, 1.0])]).await;
    let found = |user: &str, vector| {
        let found = store.search_blocks(BlockQuery { user, words: "alpha", vector, limit: 10 }).expect("readable");
        found.into_iter().map(|found| (found.user, found.id)).collect::<Vec<_>>()
    };
    let name = |user: &str, id: &str| (user.to_owned(), id.to_owned());
    for user in ["ann", "bob", SHARED_USER] {
        assert_eq!(found(user, None), [name(BUILTIN_USER, "three")], "{user}");
    }
    let near = Some(("m", [1.0, 0.0].as_slice()));
    assert_eq!(found("ann", near)[0], name(BUILTIN_USER, "three"));
    let mut all = found("ann", near);
    all.sort();
    assert_eq!(all, [name(BUILTIN_USER, "three"), name("ann", "one"), name(SHARED_USER, "two")]);
}

async fn the_index_changes_with_the_block_and_in_every_process(place: &TestDatabase) {
    let (one, two) = (place.open(), place.open());
    apply_changes(&one, vec![put_block("ann", "x", "Alpha.")]).await;
    embed_missing(&one, &[("Alpha", [1.0, 0.0])]).await;
    let near = |store: &Store| search_blocks(store, "", Some(&[1.0, 0.0])).first().and_then(|found| found.similarity);
    assert_eq!((near(&one), near(&two)), (Some(1.0), Some(1.0)));
    // A refused change leaves the index unchanged.
    let workflow = NewDefinition {
        key: DefinitionKey { user: "ann".into(), kind: DefinitionKind::Workflow, id: "w".into() },
        format: Some("pipeline".into()),
        content: "{}".into(),
        origin: Origin::Api,
        uses: vec![(DefinitionKind::Block, "x".into())],
    };
    apply_changes(&one, vec![DefinitionChange::Put(workflow)]).await;
    one.change_definitions(vec![DefinitionChange::Delete(block_key("ann", "x"))], &Actor::command_line(), 2)
        .await
        .expect_err("it is used");
    assert_eq!((block_ids(&search_blocks(&one, "alpha", None)), near(&two)), (vec!["x"], Some(1.0)));
    apply_changes(&one, vec![put_block("ann", "x", "Beta.")]).await;
    assert_eq!((search_blocks(&two, "alpha", None), near(&two)), (vec![], None));
    assert_eq!(block_ids(&search_blocks(&two, "beta", None)), ["x"]);
    embed_missing(&two, &[("Beta", [0.0, 1.0])]).await;
    assert_eq!((near(&one), near(&two)), (Some(0.0), Some(0.0)));
}

async fn equal_texts_share_a_vector_until_the_last_is_gone(place: &TestDatabase) {
    let store = place.open();
    apply_changes(&store, vec![put_block("ann", "x", "Alpha."), put_block("bob", "x", "Alpha.")]).await;
    assert_eq!(store.list_unembedded("m", 100).expect("readable").len(), 1);
    let hash = store.list_unembedded("m", 1).expect("readable").remove(0).hash;
    embed_missing(&store, &[("Alpha", [1.0, 0.0])]).await;
    assert_eq!(store.list_unembedded("m", 100).expect("readable"), []);
    apply_changes(&store, vec![DefinitionChange::Delete(block_key("ann", "x"))]).await;
    apply_changes(&store, vec![put_block("ann", "x", "Alpha.")]).await;
    assert_eq!(store.list_unembedded("m", 100).expect("readable"), [], "bob's still has it");
    apply_changes(
        &store,
        vec![DefinitionChange::Delete(block_key("ann", "x")), DefinitionChange::Delete(block_key("bob", "x"))],
    )
    .await;
    // An embedding that arrives too late is not stored.
    store.store_embeddings("m", vec![(hash, vec![1.0, 0.0])]).await.expect("done");
    apply_changes(&store, vec![put_block("ann", "x", "Alpha.")]).await;
    assert_eq!(store.list_unembedded("m", 100).expect("readable").len(), 1);
}
