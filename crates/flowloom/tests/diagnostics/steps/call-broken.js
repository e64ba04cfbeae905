await trigger('workflow::create', {
  name: 'A call',
  steps: [
    { name: 'a', functionId: 'agent::chat', mode: getMode() },
  ],
});
