// AgentFlows.activeFlowPlugins() returns:
["@@flow_abc123-uuid"]
