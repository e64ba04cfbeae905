// START block variables:
{
  name: "userId",
  value: "user_default_123"
},
{
  name: "maxResults",
  value: "10"
}

// LLM calls flow with arguments:
{
  userId: "user_custom_456",
  // maxResults not provided, uses default "10"
}

// Final variables object:
{
  userId: "user_custom_456",      // ← Overridden by LLM
  maxResults: "10"                // ← From START block default
}
