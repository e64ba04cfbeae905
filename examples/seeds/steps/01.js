const { id } = await trigger('workflow::create', {
  name: 'Document Analysis Pipeline',
  description: 'Extract, analyze, and summarize documents',
  steps: [
    {
      name: 'extract',
      functionId: 'tool::file_read',
      mode: 'sequential',
      timeoutMs: 30000,
      errorMode: 'fail',
      outputVar: 'document'
    },
    {
      name: 'analyze',
      functionId: 'agent::chat',
      promptTemplate: 'Analyze this document: {{document}}',
      mode: 'sequential',
      timeoutMs: 120000,
      errorMode: 'retry',
      maxRetries: 3,
      outputVar: 'analysis'
    },
    {
      name: 'summarize',
      functionId: 'agent::chat',
      promptTemplate: 'Summarize: {{analysis}}',
      mode: 'sequential',
      timeoutMs: 60000,
      errorMode: 'fail',
      outputVar: 'summary'
    }
  ]
});
