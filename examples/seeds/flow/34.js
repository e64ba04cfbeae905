{
  "functionCall": {
    "name": "flow_abc123-uuid",
    "arguments": {
      "query": "artificial intelligence benefits"
    }
  }
}
