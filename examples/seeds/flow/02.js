// AgentFlows.loadFlowPlugin(uuid) returns a plugin object
{
  name: `flow_${uuid}`,
  description: `Execute agent flow: ${flow.name}`,
  plugin: (_runtimeArgs = {}) => ({
    name: `flow_${uuid}`,
    description: flow.config.description || `Execute agent flow: ${flow.name}`,
    setup: (aibitat) => {
      aibitat.function({
        name: `flow_${uuid}`,
        description: flow.config.description || `Execute agent flow: ${flow.name}`,
        parameters: {
          type: "object",
          properties: variables.reduce((acc, v) => {
            if (v.name) {
              acc[v.name] = {
                type: "string",
                description: v.description || `Value for variable ${v.name}`,
              };
            }
            return acc;
          }, {}),
        },
        handler: async (args) => {
          // Handler calls AgentFlows.executeFlow()
          const result = await AgentFlows.executeFlow(uuid, args, aibitat);
          
          // If directOutput, skip further LLM processing
          if (result.directOutput) {
            aibitat.skipHandleExecution = true;
            return AgentFlows.stringifyResult(result.directOutput);
          }
          
          return AgentFlows.stringifyResult(result);
        },
      });
    },
  }),
  flowName: flow.name,
}
