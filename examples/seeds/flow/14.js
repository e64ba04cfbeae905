// In START block config:
{
  variables: [
    {
      name: "userId",
      value: "default123",
      description: "The user ID to fetch"
    },
    {
      name: "apiKey",
      value: "",
      description: "API authentication key"
    }
  ]
}
