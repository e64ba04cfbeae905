// Flow A variables
{
  userId: "123",
  apiData: {...}
}

// Flow B variables (separate instance)
{
  searchQuery: "test",
  results: [...]
}

// Each flow has isolated variable scope
