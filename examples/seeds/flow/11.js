{
  type: "llmInstruction",
  config: {
    instruction: "Analyze this text and extract key points: ${apiResponse}",  // Can use ${variables}
    resultVariable: "processedResult"                   // Store LLM response
  }
}
