async executeFlow(flow, initialVariables = {}, aibitat) {
  // Merge default variables from START block with passed-in variables
  this.variables = {
    // Extract from START block and reduce to { name: value } pairs
    ...flow.config.steps
      .find((s) => s.type === "start")
      ?.config?.variables.reduce(
        (acc, v) => ({ ...acc, [v.name]: v.value }), 
        {}
      ),
    // Override with variables passed from LLM
    ...initialVariables,  // ⭐ LLM-provided arguments
  };

  this.aibitat = aibitat;
  // ... execute all steps
}
