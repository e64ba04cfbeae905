parameters: {
  type: "object",
  properties: {
    searchQuery: { type: "string", description: "What to search for" },
    maxResults: { type: "string", description: "Maximum results to return" }
  }
}
