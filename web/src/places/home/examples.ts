// The first workflow, which is added with one click.

/** It needs nothing but a model. */
const WITH_MODEL = {
  id: "hello",
  name: "Say hello",
  description: "Greets whoever you name, and improves the greeting.",
  steps: [
    {
      name: "greet",
      functionId: "agent::chat",
      mode: "sequential",
      errorMode: "fail",
      promptTemplate: "Write one friendly sentence that greets {{input}}.",
      outputVar: "greeting",
    },
    {
      name: "improve",
      functionId: "agent::chat",
      mode: "sequential",
      errorMode: "fail",
      promptTemplate: "Rewrite this greeting so that it is shorter: {{greeting}}",
    },
  ],
};

/** It needs no model: a person does its work. */
const WITHOUT_MODEL = {
  id: "hello",
  name: "Ask and confirm",
  description: "Asks you two questions. It needs no model.",
  steps: [
    {
      name: "ask",
      functionId: "human::ask",
      mode: "sequential",
      errorMode: "fail",
      promptTemplate: "How should {{input}} be greeted?",
      outputVar: "greeting",
    },
    {
      name: "confirm",
      functionId: "human::ask",
      mode: "sequential",
      errorMode: "fail",
      promptTemplate: "The greeting is: {{greeting}}. Is that right?",
    },
  ],
};

export function chooseExample(hasModel: boolean) {
  return hasModel ? WITH_MODEL : WITHOUT_MODEL;
}
