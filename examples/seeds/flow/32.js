// AgentFlows.loadFlowPlugin("abc123-uuid") returns:
{
  name: "flow_abc123-uuid",
  description: "Search and Summarize",
  plugin: () => ({
    setup(aibitat) {
      aibitat.function({
        name: "flow_abc123-uuid",
        description: "Search and Summarize",
        parameters: {
          type: "object",
          properties: {
            query: {
              type: "string",
              description: "Search query to look up"
            }
          }
        },
        handler: async (args) => {
          const result = await AgentFlows.executeFlow("abc123-uuid", args, aibitat);
          if (result.directOutput) {
            aibitat.skipHandleExecution = true;
            return AgentFlows.stringifyResult(result.directOutput);
          }
          return AgentFlows.stringifyResult(result);
        }
      });
    }
  })
}
