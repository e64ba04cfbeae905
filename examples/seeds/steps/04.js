const result = await trigger('workflow::runs', {
  workflowId: 'wf-123',
  limit: 50,
  offset: 0
});
