async executeFlow(flow, initialVariables = {}, aibitat) {
  // ... initialize variables ...
  
  const results = [];
  let directOutputResult = null;

  // Execute blocks sequentially
  for (const step of flow.config.steps) {
    try {
      // Step 1: Execute current step
      const result = await this.executeStep(step);

      // Step 2: Check for directOutput flag
      if (result?.directOutput) {
        directOutputResult = result.result;
        break;  // ⭐ Stop execution, return directly
      }

      results.push({ success: true, result });
      
    } catch (error) {
      results.push({ success: false, error: error.message });
      break;  // ⭐ Stop on error
    }
  }

  return {
    success: results.every((r) => r.success),
    results,
    variables: this.variables,  // ⭐ All accumulated variables
    directOutput: directOutputResult,
  };
}
