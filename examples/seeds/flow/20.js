// During step execution
async executeStep(step) {
  // Step 1: Replace variables in config
  const config = this.replaceVariables(step.config);
  
  // Step 2: Execute step with replaced config
  let result;
  switch (step.type) {
    case "apiCall":
      result = await executeApiCall(config, context);
      break;
    // ... other cases
  }
  
  // Step 3: Store result in variables
  if (config.resultVariable || config.responseVariable) {
    const varName = config.resultVariable || config.responseVariable;
    this.variables[varName] = result;  // ⭐ Variable persists
  }
  
  return result;
}

// this.variables persists across all steps in a single flow execution
