import { trigger } from 'agentos';

// The call as the documentation writes it, with a step that is misspelt.
await trigger('workflow::create', {
  id: 'call',
  name: 'A call',
  description: 'Written as JavaScript',
  steps: [
    { name: 'a', functionId: 'agent::chatt', mode: 'sequential', errorMode: 'fail', },
  ],
});
