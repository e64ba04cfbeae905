{
  type: "start",
  config: {
    variables: [
      {
        name: "variableName",
        value: "defaultValue",
        description: "Optional description"
      },
      // ... more variables
    ]
  }
}
