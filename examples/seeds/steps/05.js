const { id } = await trigger('workflow::create', {
  name: 'Content Analysis Pipeline',
  description: 'Extract, analyze in parallel, and merge results',
  steps: [
    // Step 1: Extract content
    {
      name: 'fetch_content',
      functionId: 'tool::web_fetch',
      mode: 'sequential',
      timeoutMs: 30000,
      errorMode: 'retry',
      maxRetries: 3,
      outputVar: 'content'
    },
    
    // Steps 2-4: Parallel analysis (fanout)
    {
      name: 'analyze_sentiment',
      functionId: 'agent::chat',
      mode: 'fanout',
      promptTemplate: 'Analyze sentiment of: {{content}}',
      timeoutMs: 60000,
      errorMode: 'skip',
      outputVar: 'sentiment'
    },
    {
      name: 'extract_keywords',
      functionId: 'agent::chat',
      mode: 'fanout',
      promptTemplate: 'Extract keywords from: {{content}}',
      timeoutMs: 60000,
      errorMode: 'skip',
      outputVar: 'keywords'
    },
    {
      name: 'categorize',
      functionId: 'agent::chat',
      mode: 'fanout',
      promptTemplate: 'Categorize this content: {{content}}',
      timeoutMs: 60000,
      errorMode: 'skip',
      outputVar: 'category'
    },
    
    // Step 5: Collect and merge results
    {
      name: 'merge_analysis',
      functionId: 'agent::chat',
      mode: 'collect',
      promptTemplate: 'Merge these analyses into a report: {{__fanout}}',
      timeoutMs: 90000,
      errorMode: 'fail',
      outputVar: 'report'
    },
    
    // Step 6: Conditional quality check
    {
      name: 'quality_check',
      functionId: 'agent::chat',
      mode: 'conditional',
      condition: 'low confidence',
      promptTemplate: 'Review and improve this report: {{report}}',
      timeoutMs: 60000,
      errorMode: 'skip',
      outputVar: 'reviewed_report'
    },
    
    // Step 7: Loop to refine
    {
      name: 'refine',
      functionId: 'agent::chat',
      mode: 'loop',
      maxIterations: 3,
      until: 'approved',
      promptTemplate: 'Refine report (iteration {{iteration}}): {{input}}',
      timeoutMs: 60000,
      errorMode: 'fail',
      outputVar: 'final_report'
    }
  ]
});

// Execute the workflow
const result = await trigger('workflow::run', {
  workflowId: id,
  input: { url: 'https://example.com/article' },
  agentId: 'agent-123'
});

console.log('Final report:', result.vars.final_report);
