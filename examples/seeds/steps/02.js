const result = await trigger('workflow::run', {
  workflowId: 'wf-123',
  input: {
    path: 'documents/report.pdf'
  },
  agentId: 'agent-456'
});
