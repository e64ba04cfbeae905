{
  type: "apiCall",
  config: {
    url: "https://api.example.com/endpoint",           // Can use ${variables}
    method: "GET",                                     // GET, POST, PUT, PATCH, DELETE
    headers: [                                         // Optional
      { key: "Authorization", value: "Bearer token" },
      { key: "Content-Type", value: "application/json" }
    ],
    bodyType: "json",                                  // "json", "form", or "text"
    body: "{\"data\": \"value\"}",                      // For POST/PUT/PATCH, can use ${variables}
    formData: [                                        // Alternative to body for forms
      { key: "field1", value: "${variable1}" }
    ],
    responseVariable: "apiResult",                     // Store response in this variable
    directOutput: false                                // If true, return immediately (no further blocks)
  }
}
