// In flow config
{
  type: "apiCall",
  config: {
    url: "...",
    responseVariable: "finalResult",
    directOutput: true  // ← Skip remaining blocks
  }
}

// During execution
if (result?.directOutput) {
  directOutputResult = result.result;  // { directOutput: true, result: {...} }
  break;  // Stop processing
}

// In flow handler
if (!!result.directOutput) {
  aibitat.skipHandleExecution = true;  // ← Tell AIbitat to return directly
  return AgentFlows.stringifyResult(result.directOutput);
}
