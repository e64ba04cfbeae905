// Initial state (from START block and LLM args)
{ userId: "456", maxResults: "10" }

// After API_CALL block
{ userId: "456", maxResults: "10", apiResponse: {...} }

// After LLM_INSTRUCTION block
{ userId: "456", maxResults: "10", apiResponse: {...}, llmResult: "..." }

// Variables available to subsequent blocks
next block can use: ${userId}, ${maxResults}, ${apiResponse.key}, ${llmResult}
