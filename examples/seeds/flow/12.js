// The instruction string (with variables replaced) becomes the user message
const provider = aibitat.getProviderForConfig(aibitat.defaultProvider);
const completion = await provider.complete([
  {
    role: "user",
    content: instruction  // e.g., "Analyze this text and extract key points: {...}"
  }
]);

// Result stored in variables
this.variables["processedResult"] = completion.result;
