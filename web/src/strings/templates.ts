// The texts of ready pipelines that a new workflow can begin with.
export const templates = {
  title: "Or begin with a ready pipeline",
  help: "Each is made of built-in blocks. Create one, and change it in the builder.",
  needsSearch: "needs a search provider",
  pipelines: {
    "page-digest": {
      name: "Digest of a page",
      about: "Reads a web page, sums it up in three sentences, and notifies you",
    },
    "page-news": {
      name: "What is new on a page",
      about: "Compares a web page with what it said the last time, and remembers it for the next",
    },
    "top-posts": {
      name: "Top posts of Hacker News",
      about: "Gets the front page, explains each post in a sentence, and notifies you",
    },
    "topic-news": {
      name: "News about a topic",
      about: "Searches the web and sums up each result. Add a schedule to get it every morning",
    },
    "ranked-stories": {
      name: "Stories, scored and ranked",
      about: "Searches for top stories, and lists them by importance",
    },
    "price-check": {
      name: "Does it fit the budget?",
      about: "Looks up a price, and checks it against what may be spent in a month",
    },
  },
};
