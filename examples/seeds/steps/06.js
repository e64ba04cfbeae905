const result = await trigger('workflow::run', {
  workflowId: id,
  input: { url: 'https://example.com/article' },
  agentId: 'agent-123'
});
